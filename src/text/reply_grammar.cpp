// Grammars for whole replies: thoughts, text, calls, and what may follow what.
#include "text/reply_grammar.h"

#include <utility>

#include <fmt/core.h>

#include "text/call_grammar.h"
#include "text/json_schema.h"
#include "text/lark_writer.h"

namespace reprise {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kToolCall = "<tool_call>", kToolCallEnd = "</tool_call>";
constexpr std::string_view kChannel = "<|channel>", kChannelEnd = "<channel|>";
constexpr std::string_view kGemmaCall = "<|tool_call>", kGemmaCallEnd = "<tool_call|>";
constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::string_view kPythonStart = "<|python_start|>", kPythonEnd = "<|python_end|>";
constexpr std::string_view kMessage = "<|message|>", kMessageEnd = "<|eom|>", kStart = "<|start|>";

// What a reply is made of, apart from its thoughts.
struct Rules {
  ToolChoice choice = ToolChoice::none;
  bool parallel = false;
  std::string call;          // an expression for one call
  std::string python_calls;  // llama4: several, in Python's syntax
  std::string answer;        // for the whole answer where none is called; empty: any text
};

class ReplyGrammar {
 public:
  explicit ReplyGrammar(const ReplyGrammarOptions& options)
      : options_(options), writer_(options.tokenizer) {}

  LarkWriter& writer() { return writer_; }

  Result<std::string> take(std::string_view start) {
    writer_.rule("start", start);
    return writer_.take();
  }

  // An expression for the thoughts that come first and what parts them from the answer.
  std::string thoughts();

  // The answer by its schema only, with all that goes before it.
  std::string only(const std::string& answer) {
    if (options_.format == ReplyFormat::muse) return muse_thoughts() + muse_answer(answer);
    return thoughts() + answer;
  }

  std::string hermes(const Rules& rules);
  std::string llama3(const Rules& rules);
  std::string llama4(const Rules& rules);
  std::string gemma4(const Rules& rules);
  std::string muse(const Rules& rules);

 private:
  std::string text_and_calls(std::string_view mark, const std::string& call, bool parallel);
  std::string muse_thoughts();
  std::string muse_answer(const std::string& answer) {
    return fmt::format("\" to=user\" {} {}", writer_.mark(kMessage), answer);
  }
  // More calls behind the first.
  static std::string list(const std::string& call, std::string_view separator, bool parallel) {
    return parallel ? fmt::format("{} ({} {})*", call, separator, call) : call;
  }

  ReplyGrammarOptions options_;
  LarkWriter writer_;
};

std::string ReplyGrammar::thoughts() {
  const bool is_hermes = options_.format == ReplyFormat::hermes;
  if (!is_hermes && options_.format != ReplyFormat::gemma4) return {};
  if (!options_.in_reasoning && !options_.has_reasoning) return {};
  const std::string gap = writer_.terminal("GAP", R"(/\n{1,3}/)");
  const std::string rest =
      fmt::format("{} {}?", writer_.up_to(is_hermes ? kThinkEnd : kChannelEnd), gap);
  if (options_.in_reasoning) return rest + " ";
  const std::string opening =
      is_hermes ? writer_.mark(kThink) : fmt::format("{} \"thought\\n\"", writer_.mark(kChannel));
  return fmt::format("({} {})? ", opening, rest);
}

// Text and calls after thoughts, where a reply may have both. `call` stands behind the mark.
std::string ReplyGrammar::text_and_calls(std::string_view mark, const std::string& call,
                                         bool parallel) {
  // The lexer takes the longest: a text that may begin with thoughts would swallow them.
  const std::string_view opening = options_.format == ReplyFormat::hermes ? kThink : kChannel;
  const bool may_think = options_.has_reasoning && !options_.in_reasoning;
  const std::string thinking = may_think ? lark_escaped(opening) : std::string();
  const Without at_first{.at_start = thinking};
  const std::string further = writer_.text_without(mark);
  const std::string more =
      parallel ? fmt::format("({} {})* {}", writer_.up_to(mark), call, further) : further;
  return fmt::format("{}({} {} {} | {})", thoughts(), writer_.up_to(mark, at_first), call, more,
                     writer_.text_without(mark, at_first));
}

std::string ReplyGrammar::hermes(const Rules& rules) {
  constexpr std::string_view kGap = "\"\\n\"";  // as templates write it
  const std::string call = writer_.new_rule(
      "call", fmt::format("{} {} {} {}", kGap, rules.call, kGap, writer_.mark(kToolCallEnd)));
  const std::string marked = fmt::format("{} {}", writer_.mark(kToolCall), call);
  const std::string calls = writer_.new_rule("calls", list(marked, kGap, rules.parallel));
  if (rules.choice == ToolChoice::required) return thoughts() + calls;
  if (!rules.answer.empty()) return fmt::format("{}({} | {})", thoughts(), calls, rules.answer);
  return text_and_calls(kToolCall, call, rules.parallel);
}

// Calls are the whole reply; text that does not begin like one is none.
std::string ReplyGrammar::llama3(const Rules& rules) {
  std::string calls = list(rules.call, "\"; \"", rules.parallel);
  if (writer_.is_special(kPythonTag))
    calls = fmt::format("{}? {}", writer_.mark(kPythonTag), calls);
  calls = writer_.new_rule("calls", calls);
  if (rules.choice == ToolChoice::required) return calls;
  if (!rules.answer.empty()) return fmt::format("({} | {})", calls, rules.answer);
  const std::string text = writer_.terminal(
      "TEXT", R"re(/(?s:.+)/ & ~/[ \n\r\t]*\{[ \n\r\t]*"(name|type)"[ \n\r\t]*:(?s:.*)/)re");
  return fmt::format("({} | {}?)", calls, text);
}

// Besides llama3's objects a list of Python's calls; text may stand between the Python marks.
std::string ReplyGrammar::llama4(const Rules& rules) {
  std::string calls = list(rules.call, {}, rules.parallel);
  if (!rules.python_calls.empty()) calls += " | " + rules.python_calls;
  calls = writer_.new_rule("calls", calls);
  const bool has_marks = writer_.is_special(kPythonStart) && writer_.is_special(kPythonEnd);
  const std::string start = has_marks ? writer_.mark(kPythonStart) + "? " : "";
  const std::string end = has_marks ? " " + writer_.mark(kPythonEnd) : "";
  const std::string marked = start + calls + (has_marks ? end + "?" : "");
  if (rules.choice == ToolChoice::required) return marked;
  if (!rules.answer.empty()) return fmt::format("({} | {})", marked, rules.answer);
  const std::string text = writer_.terminal(
      "TEXT", R"re(/(?s:.+)/ & ~/[ \n\r\t]*\{[ \n\r\t]*"(name|type)"[ \n\r\t]*:(?s:.*)/)re"
              R"( & ~/[ \n\r\t]*\[[ \n\r\t]*[A-Za-z0-9_.]+\((?s:.*)/)");
  const std::string more = has_marks ? fmt::format("({} {}?)?", end, calls) : "";
  return fmt::format("({} | {}{}? {})", marked, start, text, more);
}

std::string ReplyGrammar::gemma4(const Rules& rules) {
  const std::string call =
      writer_.new_rule("call", fmt::format("{} {}", rules.call, writer_.mark(kGemmaCallEnd)));
  const std::string marked = fmt::format("({} {})", writer_.mark(kGemmaCall), call);
  const std::string calls = marked + (rules.parallel ? "+" : "");
  if (rules.choice == ToolChoice::required) return thoughts() + calls;
  if (!rules.answer.empty()) return fmt::format("{}({} | {})", thoughts(), calls, rules.answer);
  return text_and_calls(kGemmaCall, call, rules.parallel);
}

// Behind the prompt's "<|start|>assistant".
std::string ReplyGrammar::muse_thoughts() {
  if (!options_.in_reasoning && !options_.has_reasoning) return {};
  const std::string rest =
      fmt::format("{} {} \"assistant\"", writer_.up_to(kMessageEnd), writer_.mark(kStart));
  if (options_.in_reasoning) return rest + " ";
  return fmt::format("(\" to=self\" {} {})? ", writer_.mark(kMessage), rest);
}

std::string ReplyGrammar::muse(const Rules& rules) {
  const std::string next =
      fmt::format("{} {} \"assistant\"", writer_.mark(kMessageEnd), writer_.mark(kStart));
  const std::string calls = writer_.new_rule("calls", list(rules.call, next, rules.parallel));
  if (rules.choice == ToolChoice::required) return muse_thoughts() + calls;
  if (!rules.answer.empty())
    return fmt::format("{}({} | {})", muse_thoughts(), calls, muse_answer(rules.answer));
  // Calls stand in messages to functions only.
  constexpr Without kNever{.inside = "<atem:(function_calls|invoke )"};
  const std::string text = writer_.text_without(kMessageEnd, kNever);
  const std::string before_calls = fmt::format(
      "{} {} \"assistant\" {}", writer_.up_to(kMessageEnd, kNever), writer_.mark(kStart), calls);
  const std::string answer = fmt::format("({} | {})", text, before_calls);
  if (options_.in_content) return answer;
  return fmt::format("{}({} | {})", muse_thoughts(), calls, muse_answer(answer));
}

}  // namespace

Result<std::string> tool_grammar(const ReplyGrammarOptions& options,
                                 std::span<const ToolSpec> tools, ToolChoice choice, bool parallel,
                                 const JsonObject* answer) {
  TRY_ASSIGN(const std::vector<CheckedTool> checked, check_tools(tools));
  ReplyGrammar grammar(options);
  LarkWriter& writer = grammar.writer();
  Rules rules;
  rules.choice = choice;
  rules.parallel = parallel;
  if (answer != nullptr) {
    TRY_ASSIGN(JsonObject schema, checked_schema(*answer));
    rules.answer = writer.json(JsonValue(std::move(schema)));
  }
  switch (options.format) {
    case ReplyFormat::plain:
      break;
    case ReplyFormat::hermes:
      rules.call = json_call(writer, checked, "arguments");
      return grammar.take(grammar.hermes(rules));
    case ReplyFormat::llama3:
      rules.call = json_call(writer, checked, "parameters");
      return grammar.take(grammar.llama3(rules));
    case ReplyFormat::llama4:
      rules.call = json_call(writer, checked, "parameters");
      rules.python_calls = python_calls(writer, checked, parallel);
      return grammar.take(grammar.llama4(rules));
    case ReplyFormat::gemma4: {
      TRY_ASSIGN(rules.call, gemma4_call(writer, checked));
      return grammar.take(grammar.gemma4(rules));
    }
    case ReplyFormat::muse: {
      TRY_ASSIGN(rules.call, muse_call(writer, checked));
      return grammar.take(grammar.muse(rules));
    }
  }
  return fail(Errc::unsupported, "this model's replies have no form for calls of functions");
}

Result<std::string> json_grammar(const ReplyGrammarOptions& options, const JsonObject& schema) {
  TRY_ASSIGN(JsonObject checked, checked_schema(schema));
  ReplyGrammar grammar(options);
  const std::string answer = grammar.writer().json(JsonValue(std::move(checked)));
  return grammar.take(grammar.only(answer));
}

}  // namespace reprise
