// The command line: CLI11 over the option table.
#include "cli/options.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "base/nearest.h"

#ifndef REPRISE_VERSION
#error "REPRISE_VERSION comes from CMake"
#endif

namespace reprise {
namespace {

// Long names of a table entry: "-m,--model" -> "--model".
std::string long_flag(const OptionSpec& option) {
  const std::string_view flags = option.flags;
  const std::size_t at = flags.rfind("--");
  return std::string(flags.substr(at));
}

bool is_switch(const OptionSpec& option) {
  return std::string_view(option.value) == "on|off";
}

// What one command's words and environment say. CLI11 runs the callbacks of the commands that are
// not asked for too, where the environment has a value: one state for all would let it overrule
// flags. CLI11 would have a callback throw; ours leaves the first error here instead.
struct ParseState {
  Options options;
  std::string path;  // of inspect, which takes it without a flag
  std::optional<Error> error;
};

void add_option(CLI::App& app, const char* command, const OptionSpec& spec, ParseState& state) {
  const auto set = [&spec, &state](const std::string& text) {
    const Status status = spec.set(state.options, text);
    if (status || state.error) return;
    state.error = status.error();
    state.error->message = fmt::format("{}: {}", long_flag(spec), state.error->message);
  };
  std::string help = spec.help_for(command);
  if (*spec.initial != '\0') help += fmt::format(" [{}]", spec.initial);
  CLI::Option* option = app.add_option_function<std::string>(spec.flags, set, help);
  option->type_name(spec.value)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  if (*spec.env != '\0') option->envname(spec.env);
  if (is_switch(spec)) {
    option->expected(0, 1)->default_str("")->run_callback_for_default();
    if (std::string_view(spec.flags) == "--prompt-cache") {
      app.add_flag_callback(
          "--no-prompt-cache", [&state] { state.options.prompt_cache = false; },
          "the same as --prompt-cache off");
    }
  }
}

std::vector<std::string> known_words(std::string_view command) {
  std::vector<std::string> words = {"--help", "--version"};
  for (const OptionSpec& option : option_table()) {
    if (!command.empty() && !option.belongs_to(command)) continue;
    words.push_back(long_flag(option));
    if (words.back() == "--prompt-cache") words.emplace_back("--no-prompt-cache");
  }
  if (command.empty()) {
    for (const CommandSpec& spec : command_table()) {
      if (!spec.is_for_developers) words.emplace_back(spec.name);
    }
  }
  return words;
}

bool takes(std::string_view command, std::string_view flag) {
  return std::ranges::any_of(option_table(), [&](const OptionSpec& option) {
    return option.belongs_to(command) && long_flag(option) == flag;
  });
}

bool looks_like_a_path(const std::string& word) {
  std::error_code ignored;
  return word.ends_with(".gguf") || word.find('/') != std::string::npos ||
         std::filesystem::exists(word, ignored);
}

// What was probably meant by a word that no option took; empty: nobody knows.
std::string meant_by(const std::string& word, std::string_view command) {
  const bool is_value = !word.starts_with("-") && takes(command, "--model");
  if (is_value && looks_like_a_path(word)) return "-m " + word;
  const std::string nearest = nearest_word(word, known_words(command));
  if (!nearest.empty() || !is_value) return nearest;
  return (takes(command, "--prompt") ? "-p " : "-m ") + word;
}

Error unknown_word(const std::string& word, std::string_view command) {
  const std::string bare = word.substr(0, word.find('='));
  const std::string meant = meant_by(bare, command);
  std::string message =
      fmt::format("unknown {} \"{}\"", word.starts_with("-") ? "flag" : "word", bare);
  if (!meant.empty()) message += fmt::format("; did you mean \"{}\"?", meant);
  message += fmt::format(" (reprise {}{}--help lists all)", command, command.empty() ? "" : " ");
  return Error{Errc::invalid_argument, message, bare};
}

bool takes_path(const CommandSpec& command) {
  return std::string_view(command.name) == "inspect";
}

// One CLI11 command for each of ours, in their order.
std::vector<CLI::App*> add_commands(CLI::App& app, std::vector<ParseState>& states) {
  std::vector<CLI::App*> commands;
  for (const CommandSpec& spec : command_table()) {
    CLI::App* command = app.add_subcommand(spec.name, spec.help);
    command->allow_extras();
    if (spec.is_for_developers) command->group("");
    ParseState& state = states[commands.size()];
    if (takes_path(spec)) {
      command->add_option("path", state.path, "GGUF file, folder of a model, or snapshot file");
    }
    for (const OptionSpec& option : option_table()) {
      if (option.belongs_to(spec.name)) add_option(*command, spec.name, option, state);
    }
    commands.push_back(command);
  }
  return commands;
}

// "-hf", which CLI11 reads as -h and -f; null where help was asked for in earnest.
const std::string* glued_help(const std::vector<std::string>& arguments) {
  const auto asks = [](const std::string& word) { return word == "-h" || word == "--help"; };
  if (std::ranges::any_of(arguments, asks)) return nullptr;
  const auto glued = std::ranges::find_if(
      arguments, [](const std::string& word) { return word.starts_with("-h"); });
  return glued == arguments.end() ? nullptr : &*glued;
}

// The path of inspect, with or without -m.
Status take_path(ParseState& state, const std::vector<std::string>& arguments) {
  if (!state.path.empty()) {
    const bool is_second = std::ranges::any_of(arguments, [](const std::string& word) {
      return word.starts_with("--model") || (word.starts_with("-m") && !word.starts_with("--"));
    });
    if (is_second) return fail(Errc::invalid_argument, "got a path with -m and one without");
    state.options.model = state.path;
  }
  if (!state.options.model.empty()) return {};
  return fail(Errc::invalid_argument, "no file or folder given: reprise inspect PATH");
}

}  // namespace

bool OptionSpec::belongs_to(std::string_view command) const {
  const std::string list = fmt::format(" {} ", commands);
  return list.find(fmt::format(" {} ", command)) != std::string::npos;
}

const char* OptionSpec::help_for(std::string_view command) const {
  return command == other.command ? other.help : help;
}

Result<ParsedCommand> parse_command_line(const std::vector<std::string>& arguments) {
  ParsedCommand parsed;
  std::vector<ParseState> states(command_table().size());  // never grows: the callbacks point in
  CLI::App app(
      "reprise: an LLM server for CPUs whose conversations never pay twice for the same tokens",
      "reprise");
  app.set_version_flag("--version", "reprise " REPRISE_VERSION);
  app.require_subcommand(0, 1);
  const std::vector<CLI::App*> commands = add_commands(app, states);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.allow_extras();
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    if (const std::string* glued = glued_help(arguments)) {
      const auto used = app.get_subcommands();
      return std::unexpected(unknown_word(*glued, used.empty() ? "" : used.front()->get_name()));
    }
    parsed.text = app.help();
    return parsed;
  } catch (const CLI::Success&) {
    parsed.text = "reprise " REPRISE_VERSION "\n";
    return parsed;
  } catch (const CLI::Error& error) {
    return fail(Errc::invalid_argument, error.what());
  }
  const std::vector<std::string> extras = app.remaining();
  for (std::size_t i = 0; i < commands.size(); i++) {
    if (!commands[i]->parsed()) continue;
    if (!extras.empty()) {  // would be lost in silence
      return fail(
          Errc::invalid_argument,
          fmt::format("got \"{}\" before the command: options follow it (reprise {} {} ...)",
                      extras.front(), command_table()[i].name, extras.front()));
    }
    const std::vector<std::string> unknown = commands[i]->remaining();
    if (!unknown.empty())
      return std::unexpected(unknown_word(unknown.front(), command_table()[i].name));
    ParseState& state = states[i];
    if (state.error) return std::unexpected(*state.error);
    if (takes_path(command_table()[i])) TRY(take_path(state, arguments));
    parsed.command = &command_table()[i];
    parsed.options = std::move(state.options);
    return parsed;
  }
  if (!extras.empty()) return std::unexpected(unknown_word(extras.front(), ""));
  parsed.text = app.help();
  return parsed;
}

std::string options_markdown() {
  std::string text =
      "| flag | environment | default | commands | what it does |\n|---|---|---|---|---|\n";
  for (const OptionSpec& option : option_table()) {
    std::string flags;
    for (const char c : std::string_view(option.flags))
      flags += c == ',' ? std::string("`, `") : std::string(1, c);
    std::string value = option.value;
    for (std::size_t at = 0; (at = value.find('|', at)) != std::string::npos; at += 2)
      value.insert(at, "\\");
    std::string help = option.help;
    if (*option.other.command != '\0')
      help += fmt::format("; {}: {}", option.other.command, option.other.help);
    text += fmt::format("| `{}` {} | {} | {} | {} | {} |\n", flags, value,
                        *option.env == '\0' ? std::string() : fmt::format("`{}`", option.env),
                        option.initial, option.commands, help);
  }
  return text;
}

}  // namespace reprise
