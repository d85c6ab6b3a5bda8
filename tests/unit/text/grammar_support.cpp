// GrammarProbe: texts and random replies through grammars.
#include "grammar_support.h"

#include <algorithm>
#include <bit>

#include <gtest/gtest.h>

#include "golden.h"

namespace reprise::test {
namespace {

constexpr std::string_view kMarks[] = {
    "<|message|>",      "<|eom|>",        "<|start|>",  "<|python_tag|>",
    "<|python_start|>", "<|python_end|>", "<|channel>", "<channel|>",
    "<|tool_call>",     "<tool_call|>",   "<|\"|>"};

}  // namespace

Tokenizer tokenizer_with_marks(bool are_special) {
  OwnedVocabulary owned = scores_vocabulary({"▁",
                                             "{",
                                             "}",
                                             "[",
                                             "]",
                                             "(",
                                             ")",
                                             "\"",
                                             ":",
                                             ",",
                                             "a",
                                             "b",
                                             "1",
                                             "=",
                                             "</atem:parameter>",
                                             "</think>",
                                             "<think>",
                                             "<tool_call>",
                                             "</tool_call>",
                                             "\"}",
                                             "x<",
                                             "call"});
  for (const std::string_view mark : kMarks) {
    owned.tokens.emplace_back(mark);
    owned.vocabulary.types.push_back(are_special ? TokenType::control : TokenType::user_defined);
    owned.vocabulary.scores.push_back(-1000.0F);
  }
  return tokenizer_of(std::move(owned));
}

std::vector<Call> calls_in(ReplyFormat format, const std::vector<ToolSpec>& specs,
                           const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                           bool are_constrained, std::string& text) {
  ReplyParserOptions options{.has_tools = true, .calls_are_constrained = are_constrained};
  for (const ToolSpec& spec : specs) {
    options.tool_names.push_back(spec.name);
    options.tool_parameters.push_back(spec.parameters);
  }
  const auto parser = make_reply_parser(format, options);
  std::vector<ReplyPart> parts;
  for (const TokenId id : ids) {
    if (tokenizer.is_special(id)) {
      parser->push_special(tokenizer.token_bytes(id), parts);
    } else {
      parser->push(tokenizer.token_bytes(id), parts);
    }
  }
  parser->finish(parts);
  std::vector<Call> calls;
  for (const ReplyPart& part : parts) {
    if (part.kind == ReplyPart::Kind::tool_name) calls.push_back({part.text, {}});
    if (part.kind == ReplyPart::Kind::tool_arguments) calls.back().arguments += part.text;
    if (part.kind == ReplyPart::Kind::content) text += part.text;
  }
  return calls;
}

bool is_allowed(std::span<const std::uint32_t> mask, TokenId id) {
  const auto index = static_cast<std::size_t>(id);
  return index / 32 < mask.size() && (mask[index / 32] >> (index % 32) & 1) != 0;
}

int count_allowed(std::span<const std::uint32_t> mask) {
  int allowed = 0;
  for (const std::uint32_t word : mask) allowed += std::popcount(word);
  return allowed;
}

std::string GrammarProbe::text_of(const std::vector<TokenId>& ids) const {
  std::string text;
  for (const TokenId id : ids) text += tokenizer_.token_bytes(id);
  return text;
}

std::string GrammarProbe::verdict(GrammarMatcher& matcher) {
  if (const Status computed = matcher.compute_mask(); !computed)
    return "error: " + computed.error().message;
  const auto ends = [&](TokenId id) { return is_allowed(matcher.mask(), id); };
  const bool is_complete = std::ranges::all_of(stop_ids_, ends);
  EXPECT_EQ(is_complete, std::ranges::any_of(stop_ids_, ends)) << "stop ids go together";
  return is_complete ? "complete" : "open";
}

std::string GrammarProbe::after(std::string_view lark, std::string_view text) {
  Result<GrammarMatcher> matcher = compiler_.compile(lark);
  if (!matcher) return "error: " + matcher.error().message;
  const auto ids = tokenizer_.encode(text, AddSpecial::no, ParseSpecial::yes);
  if (!ids) return "error: " + ids.error().message;
  std::string passed;
  for (const TokenId id : *ids) {
    if (const Status computed = matcher->compute_mask(); !computed)
      return "error: " + computed.error().message;
    const bool allowed = is_allowed(matcher->mask(), id);
    const Result<bool> goes_on = matcher->advance(id);
    // Text without a choice may be cut otherwise than the mask says.
    EXPECT_TRUE(goes_on || !allowed) << "the mask has token " << id;
    EXPECT_TRUE(allowed || !goes_on || count_allowed(matcher->mask()) == 1)
        << "the mask lacks token " << id;
    if (!goes_on) return passed;
    passed += tokenizer_.token_bytes(id);
    if (!*goes_on) return passed == text ? "complete" : passed;
  }
  return verdict(*matcher);
}

// Uniform among the allowed tokens; at last, what leads to the end.
std::optional<TokenId> GrammarProbe::draw(std::span<const std::uint32_t> mask, std::mt19937& random,
                                          bool wants_end) const {
  if (wants_end && is_allowed(mask, stop_ids_.front())) return stop_ids_.front();
  std::vector<TokenId> allowed;
  for (TokenId id = 0; id < static_cast<TokenId>(mask.size() * 32); id++) {
    if (is_allowed(mask, id)) allowed.push_back(id);
  }
  if (allowed.empty()) return std::nullopt;
  if (wants_end) {  // what closes strings, arrays and objects
    for (const std::string_view closing :
         {"<|\"|>", "</atem:parameter>", "\"", "}", "]", ")", "\"}", "\":", ":", "a"}) {
      for (const TokenId id : allowed) {
        if (tokenizer_.token_bytes(id) == closing) return id;
      }
    }
  }
  return allowed[random() % allowed.size()];
}

std::optional<std::vector<TokenId>> GrammarProbe::walk(std::string_view lark, std::mt19937& random,
                                                       int tokens_max) {
  Result<GrammarMatcher> matcher = compiler_.compile(lark);
  if (!matcher) {
    ADD_FAILURE() << matcher.error().message;
    return std::nullopt;
  }
  std::vector<TokenId> ids;
  for (int i = 0; i < tokens_max; i++) {
    const Status computed = matcher->compute_mask();
    if (!computed) {
      ADD_FAILURE() << computed.error().message << " after " << text_of(ids);
      return std::nullopt;
    }
    const std::optional<TokenId> id = draw(matcher->mask(), random, i > tokens_max / 8);
    if (!id) {
      ADD_FAILURE() << "no token after " << text_of(ids);
      return std::nullopt;
    }
    if (std::ranges::find(stop_ids_, *id) != stop_ids_.end()) return ids;
    ids.push_back(*id);
    const Result<bool> goes_on = matcher->advance(*id);
    if (!goes_on) {
      ADD_FAILURE() << goes_on.error().message << " after " << text_of(ids);
      return std::nullopt;
    }
    if (!*goes_on) return ids;
  }
  return std::nullopt;
}

JsonObject object_of(std::string_view text) {
  const Result<JsonValue> value = parse_json(text);
  EXPECT_TRUE(value.has_value()) << text;
  return value ? value->as_object() : JsonObject{};
}

}  // namespace reprise::test
