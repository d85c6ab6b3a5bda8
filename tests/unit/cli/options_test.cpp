// The option table: every entry parses, bad values name flag and range, typing errors get a hint.
#include "cli/options.h"

#include <cstdlib>
#include <set>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/nearest.h"

namespace reprise {
namespace {

using Words = std::vector<std::string>;

TEST(Options, ServeTakesItsFlags) {
  const auto parsed = parse_command_line({"serve", "-m", "x.gguf", "--port", "1234",
                                          "--prompt-cache=off", "--kv-type", "int8",
                                          "--prompt-cache-capacity", "2GiB", "--api-key", "a,b"});
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  ASSERT_NE(parsed->command, nullptr);
  EXPECT_STREQ(parsed->command->name, "serve");
  EXPECT_EQ(parsed->options.model, "x.gguf");
  EXPECT_EQ(parsed->options.port, 1234);
  EXPECT_FALSE(parsed->options.prompt_cache);
  EXPECT_EQ(parsed->options.kv_type, kernels::KvType::int8);
  EXPECT_EQ(parsed->options.cache_bytes, std::size_t{2} << 30);
  EXPECT_EQ(parsed->options.api_keys, (Words{"a", "b"}));
}

TEST(Options, PromptCacheCanBeSwitchedInEveryUsualWay) {
  const auto cache = [](const Words& words) {
    Words all = {"serve", "-m", "x"};
    all.insert(all.end(), words.begin(), words.end());
    const auto parsed = parse_command_line(all);
    EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
    return parsed->options.prompt_cache;
  };
  EXPECT_TRUE(cache({}));
  EXPECT_TRUE(cache({"--prompt-cache"}));
  EXPECT_TRUE(cache({"--prompt-cache", "on"}));
  EXPECT_TRUE(cache({"--prompt-cache=true"}));
  EXPECT_FALSE(cache({"--prompt-cache", "off"}));
  EXPECT_FALSE(cache({"--prompt-cache=off"}));
  EXPECT_FALSE(cache({"--no-prompt-cache"}));
  EXPECT_FALSE(cache({"--prompt-cache=on", "--prompt-cache=off"}));  // the last one counts
}

TEST(Options, EnvironmentGivesWayToFlags) {
  ::setenv("REPRISE_PORT", "4321", 1);
  EXPECT_EQ(parse_command_line({"serve", "-m", "x"})->options.port, 4321);
  EXPECT_EQ(parse_command_line({"serve", "-m", "x", "--port", "5"})->options.port, 5);
  ::setenv("REPRISE_PORT", "many", 1);
  EXPECT_FALSE(parse_command_line({"serve", "-m", "x"}).has_value());
  ::unsetenv("REPRISE_PORT");
  // Also where commands that are not asked for have the option.
  ::setenv("REPRISE_MODEL", "environment", 1);
  for (const char* command : {"serve", "run", "generate", "bench"}) {
    EXPECT_EQ(parse_command_line({command})->options.model, "environment");
    EXPECT_EQ(parse_command_line({command, "-m", "flag"})->options.model, "flag");
  }
  ::unsetenv("REPRISE_MODEL");
  // And what only another command would read is not read.
  ::setenv("REPRISE_MAX_QUEUE", "many", 1);
  EXPECT_TRUE(parse_command_line({"generate", "-m", "x"}).has_value());
  EXPECT_FALSE(parse_command_line({"serve", "-m", "x"}).has_value());
  ::unsetenv("REPRISE_MAX_QUEUE");
}

TEST(Options, BadValuesNameTheFlagAndTheRange) {
  const struct {
    Words words;
    const char* flag;
    const char* part;
  } cases[] = {
      {{"serve", "--port", "99999"}, "--port", "65535"},
      {{"serve", "--port", "-1"}, "--port", "0"},
      {{"serve", "--port", "12x"}, "--port", "12x"},
      {{"serve", "--kv-type", "int3"}, "--kv-type", "bf16"},
      {{"serve", "--prompt-cache=maybe"}, "--prompt-cache", "on or off"},
      {{"serve", "--prompt-cache-capacity", "lots"}, "--prompt-cache-capacity", "GiB"},
      {{"generate", "--temperature", "nan"}, "--temperature", "0 to 2"},
      {{"run", "--temperature", "9"}, "--temperature", "0 to 2"},  // as the API
      {{"generate", "--top-p", "1.1"}, "--top-p", "0 to 1"},
      {{"generate", "--min-p", "-0.1"}, "--min-p", "0 to 1"},
      {{"generate", "--top-k", "2000000"}, "--top-k", "1000000"},
      {{"serve", "--port"}, "--port", ""},
      {{"serve", "--host", ""}, "--host", "an address"},
      {{"serve", "--log-level", "loud"}, "--log-level", "warn"},
      {{"serve", "--prompt-cache-capacity", "101%"}, "--prompt-cache-capacity", "100 %"},
      {{"serve", "--api-key-file", ""}, "--api-key-file", "a file"},
      {{"serve", "--request-timeout", "-1"}, "--request-timeout", "86400"},
      {{"serve", "--decode-ms", "0"}, "--decode-ms", "60000"},
      {{"serve", "--cache-pin-max", "lots"}, "--cache-pin-max", "GiB"},
      {{"serve", "--cache-pin-max", "101%"}, "--cache-pin-max", "100 %"},
      {{"--port", "80", "serve", "-m", "x"}, "--port", "before the command"},
  };
  for (const auto& c : cases) {
    const auto parsed = parse_command_line(c.words);
    ASSERT_FALSE(parsed.has_value()) << c.flag;
    EXPECT_NE(parsed.error().message.find(c.flag), std::string::npos) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find(c.part), std::string::npos) << parsed.error().message;
  }
}

TEST(Options, UnknownWordsGetTheNearestOne) {
  const std::pair<Words, const char*> cases[] = {
      {{"serve", "--prot", "1"}, "--port"},
      {{"serve", "--promt-cache=off"}, "--prompt-cache"},
      {{"generate", "--max-token", "5"}, "--max-tokens"},
      {{"serv"}, "serve"},
      {{"inspct", "x"}, "inspect"},
      {{"run", "--temp", "3"}, "--temperature"},
      {{"serve", "model.gguf"}, "\"-m model.gguf\""},
      {{"run", "models/x"}, "\"-m models/x\""},
      {{"bench", "x"}, "\"-m x\""},
      {{"generate", "Hello"}, "\"-p Hello\""},
      {{"generate", "models/x.gguf"}, "-m"},
      {{"serve", "-hf", "foo/bar"}, "unknown flag \"-hf\""},
      {{"-hf"}, "unknown flag \"-hf\""},
  };
  for (const auto& [words, hint] : cases) {
    const auto parsed = parse_command_line(words);
    ASSERT_FALSE(parsed.has_value()) << words[0];
    EXPECT_NE(parsed.error().message.find(hint), std::string::npos) << parsed.error().message;
  }
  EXPECT_EQ(nearest_word("zzzzzz", Words{"serve", "run"}), "");
  // Only what the command has: `generate` has no switch for the prompt cache.
  const auto parsed = parse_command_line({"generate", "--prompt-cache", "off"});
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().message.find("did you mean"), std::string::npos)
      << parsed.error().message;
}

TEST(Options, HelpListsEveryOptionOfACommand) {
  for (const CommandSpec& command : command_table()) {
    const auto parsed = parse_command_line({command.name, "--help"});
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->command, nullptr);
    for (const OptionSpec& option : option_table()) {
      if (!option.belongs_to(command.name)) continue;
      EXPECT_NE(parsed->text.find(option.help_for(command.name)), std::string::npos)
          << option.flags;
    }
    EXPECT_TRUE(parsed->text.find(fmt::format("Usage: reprise {} ", command.name)) !=
                std::string::npos)
        << parsed->text;
    // Nothing of what is true for other commands only.
    for (const CommandSpec& other : command_table())
      EXPECT_EQ(parsed->text.find(fmt::format("; {}: ", other.name)), std::string::npos);
  }
  const auto own = parse_command_line({"cache", "-h"});
  EXPECT_NE(own->text.find("address of the running server"), std::string::npos);
  EXPECT_EQ(own->text.find("listen"), std::string::npos);
}

TEST(Options, HelpListsTheCommandsOfUsers) {
  for (const Words& words : {Words{}, Words{"--help"}, Words{"-h"}}) {
    const auto parsed = parse_command_line(words);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_NE(parsed->text.find("Usage: reprise "), std::string::npos) << parsed->text;
    for (const CommandSpec& command : command_table()) {
      EXPECT_EQ(parsed->text.find(command.help) != std::string::npos, !command.is_for_developers)
          << command.name;
    }
  }
}

TEST(Options, InspectTakesItsPathEitherWay) {
  for (const Words& words :
       {Words{"inspect", "x"}, Words{"inspect", "-m", "x"}, Words{"inspect", "--model=x"}}) {
    const auto parsed = parse_command_line(words);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(parsed->options.model, "x");
  }
  EXPECT_FALSE(parse_command_line({"inspect"}).has_value());
  EXPECT_FALSE(parse_command_line({"inspect", "-m", "x", "y"}).has_value());
  ::setenv("REPRISE_MODEL", "environment", 1);
  EXPECT_EQ(parse_command_line({"inspect"})->options.model, "environment");
  EXPECT_EQ(parse_command_line({"inspect", "x"})->options.model, "x");
  ::unsetenv("REPRISE_MODEL");
}

TEST(Options, TableIsConsistent) {
  std::set<std::string> flags;
  for (const OptionSpec& option : option_table()) {
    EXPECT_TRUE(flags.insert(option.flags).second) << option.flags;
    bool used = false;
    for (const CommandSpec& command : command_table()) used |= option.belongs_to(command.name);
    EXPECT_TRUE(used) << option.flags;
    EXPECT_NE(options_markdown().find(option.help), std::string::npos);
    EXPECT_NE(options_markdown().find(option.other.help), std::string::npos);
    EXPECT_TRUE(*option.other.command == '\0' || option.belongs_to(option.other.command));
  }
}

TEST(Options, BytesWithUnits) {
  EXPECT_EQ(parse_bytes("4096", 100).value(), 4096U);
  EXPECT_EQ(parse_bytes("1.5K", 100).value(), 1536U);
  EXPECT_EQ(parse_bytes("25%", 1000).value(), 250U);
  EXPECT_FALSE(parse_bytes("", 100).has_value());
  EXPECT_FALSE(parse_bytes("-5M", 100).has_value());
  EXPECT_FALSE(parse_bytes("5X", 100).has_value());
  EXPECT_FALSE(parse_bytes("1e30", 100).has_value());
}

TEST(Options, SharesOfAWhole) {
  EXPECT_EQ(parse_share("25%", 1000).value(), 250U);
  EXPECT_EQ(parse_share("100%", 1000).value(), 1000U);
  EXPECT_EQ(parse_share("1%", 10).value(), 0U);
  EXPECT_EQ(parse_share("2M", 10).value(), std::size_t{2} << 20);
  for (const char* nothing : {"0", "0%", "off"}) EXPECT_EQ(parse_share(nothing, 10).value(), 0U);
  for (const char* wrong : {"", "-1", "101%", "x%", "many"}) EXPECT_FALSE(parse_share(wrong, 10));
}

// A typing error must not put keys into the journal.
TEST(Options, NoErrorRepeatsAKey) {
  for (const char* keys :
       {",SECRET", "SECRET,", "SECRET,,b", "SECRET, b", "SE CRET", "SECRET\x7f"}) {
    const auto parsed = parse_command_line({"serve", "-m", "x", "--api-key", keys});
    ASSERT_FALSE(parsed.has_value()) << keys;
    EXPECT_NE(parsed.error().message.find("--api-key"), std::string::npos);
    EXPECT_EQ(parsed.error().message.find("SE"), std::string::npos) << parsed.error().message;
  }
  const auto parsed = parse_command_line({"serve", "-m", "x", "--api-key", "a,b"});
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->options.api_keys, (std::vector<std::string>{"a", "b"}));
}

TEST(Options, AnOriginIsOneThatABrowserSends) {
  const auto origin = [](const char* text) {
    return parse_command_line({"serve", "-m", "x", "--cors-origin", text}).has_value();
  };
  for (const char* good : {"*", "null", "https://ui.example", "http://localhost:3000"})
    EXPECT_TRUE(origin(good)) << good;
  for (const char* bad : {"", "https://ui.example/", "ui.example", "https://", "http://a/b"})
    EXPECT_FALSE(origin(bad)) << bad;
}

TEST(Options, ServeTakesKeysTimesAndPins) {
  const auto parsed = parse_command_line({"serve", "-m", "x", "--api-key-file", "keys.txt",
                                          "--request-timeout", "90", "--decode-ms", "40",
                                          "--cache-pin-max", "1GiB", "--max-queue", "7"});
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->options.api_key_file, "keys.txt");
  EXPECT_EQ(parsed->options.request_timeout_seconds, 90);
  EXPECT_EQ(parsed->options.decode_ms, 40);
  EXPECT_EQ(parsed->options.cache_pin_max, "1GiB");
  EXPECT_EQ(parsed->options.queue, 7);
}

TEST(Options, CacheTakesAServerAndWhatToDo) {
  const auto parsed = parse_command_line(
      {"cache", "--url", "http://h:1", "--api-key", "k", "--cache-salt", "s", "--json", "--reset"});
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_STREQ(parsed->command->name, "cache");
  EXPECT_EQ(parsed->options.url, "http://h:1");
  EXPECT_EQ(parsed->options.api_keys, Words{"k"});
  EXPECT_EQ(parsed->options.cache_salt, "s");
  EXPECT_TRUE(parsed->options.json);
  EXPECT_TRUE(parsed->options.reset);
  EXPECT_FALSE(parse_command_line({"cache", "--model", "x"}).has_value());
}

}  // namespace
}  // namespace reprise
