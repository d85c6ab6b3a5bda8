// How long grammars take over a real vocabulary: compiling, and the mask of each token of a reply.
// Usage: grammar_mask model.gguf
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "base/machine.h"
#include "support/gguf_vocabulary.h"
#include "text/grammar.h"
#include "text/reply_grammar.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

template <class T>
T value_or_end(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(2);
}

JsonObject object_of(std::string_view text) {
  return value_or_end(parse_json(text)).as_object();
}

constexpr std::string_view kSchema = R"({"type": "object", "properties": {
    "title": {"type": "string"}, "year": {"type": "integer", "minimum": 1900, "maximum": 2100},
    "rating": {"type": "number"}, "genre": {"enum": ["drama", "comedy", "horror"]},
    "actors": {"type": "array", "items": {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 60}, "role": {"type": "string"}},
    "required": ["name", "role"], "additionalProperties": false}}},
    "required": ["title", "year", "rating", "genre", "actors"], "additionalProperties": false})";
constexpr std::string_view kAnswer = R"({"title": "The Long Way Home", "year": 1998, "rating": 7.5,
 "genre": "drama", "actors": [{"name": "Anna Müller", "role": "A teacher who \"never\" sleeps"},
 {"name": "John O'Neill", "role": "Himself, thirty years later & wiser"}]})";
constexpr std::string_view kCall =
    "I shall look that up for you: \"Paris\", then Lyon; it takes a moment (3 < 5 seconds).\n"
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris, Île-de-France\", "
    "\"days\": 3}}\n</tool_call>";

std::vector<ToolSpec> tools() {
  std::vector<ToolSpec> specs;
  specs.push_back({"get_weather", object_of(R"({"type": "object", "properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]})")});
  specs.push_back({"find_film", object_of(kSchema)});
  for (int i = 0; i < 10; i++) {
    specs.push_back({fmt::format("note_{}", i), object_of(R"({"type": "object", "properties": {
        "text": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}})")});
  }
  return specs;
}

// Walks the reply several times; the first walk alone, as a request meets it, and all others.
void measure(std::string_view name, GrammarCompiler& compiler, const Tokenizer& tokenizer,
             const std::string& lark, std::string_view reply) {
  const auto ids = value_or_end(tokenizer.encode(reply, AddSpecial::no, ParseSpecial::no));
  constexpr int kRounds = 20;
  std::vector<double> masks, steps, compiles;
  std::vector<double> fastest(ids.size(), 1e9);  // of each token
  for (int round = 0; round < kRounds; round++) {
    const Clock::time_point begin = Clock::now();
    GrammarMatcher matcher = value_or_end(compiler.compile(lark));
    compiles.push_back(microseconds_since(begin));
    for (std::size_t i = 0; i < ids.size(); i++) {
      const Clock::time_point before = Clock::now();
      if (const Status computed = matcher.compute_mask(); !computed) std::exit(2);
      masks.push_back(microseconds_since(before));
      fastest[i] = std::min(fastest[i], masks.back());
      const Clock::time_point between = Clock::now();
      value_or_end(matcher.advance(ids[i]));
      steps.push_back(microseconds_since(between));
    }
  }
  for (auto* times : {&masks, &steps, &compiles}) std::ranges::sort(*times);
  const auto at = [](const std::vector<double>& times, double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  fmt::print(
      "{}: {} tokens, mask median {:.1f} us, p99 {:.1f} us, max {:.1f} us; advance median "
      "{:.1f} us; compile median {:.2f} ms\n",
      name, ids.size(), at(masks, 0.5), at(masks, 0.99), masks.back(), at(steps, 0.5),
      at(compiles, 0.5) / 1000);
  const auto slowest =
      static_cast<std::size_t>(std::ranges::max_element(fastest) - fastest.begin());
  fmt::print("  slowest: {:.1f} us at the least, before token {} \"{}\"\n", fastest[slowest],
             slowest, tokenizer.token_bytes(ids[slowest]));
}

void measure_all(const char* path) {
  const Tokenizer tokenizer = value_or_end(testing::scores_tokenizer_of(path));
  const auto resident = memory_resident_bytes();
  GrammarCompiler compiler(tokenizer, {1, 106}, static_cast<int>(tokenizer.size()));
  const Clock::time_point begin = Clock::now();
  value_or_end(compiler.compile("start: \"a\""));
  fmt::print("{} tokens: vocabulary {:.0f} ms, {} MB\n", tokenizer.size(),
             microseconds_since(begin) / 1000, (memory_resident_bytes() - resident) >> 20);
  const ReplyGrammarOptions options{.format = ReplyFormat::hermes, .tokenizer = &tokenizer};
  measure("json_schema", compiler, tokenizer, value_or_end(json_grammar({}, object_of(kSchema))),
          kAnswer);
  measure("json_object", compiler, tokenizer, value_or_end(json_grammar({}, {{"type", "object"}})),
          kAnswer);
  measure("tools", compiler, tokenizer,
          value_or_end(tool_grammar(options, tools(), ToolChoice::automatic, true)), kCall);
}

}  // namespace
}  // namespace reprise

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: grammar_mask model.gguf\n");
    return 2;
  }
  reprise::measure_all(arguments[1]);
  return 0;
}
