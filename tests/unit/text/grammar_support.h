// Grammars in tests: a compiler over a vocabulary, and what replies they let through.
#pragma once
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar.h"
#include "text/reply_grammar.h"

namespace reprise::test {

// A grammar with a compiler's vocabulary, asked about texts.
class GrammarProbe {
 public:
  GrammarProbe(const Tokenizer& tokenizer, std::vector<TokenId> stop_ids, int vocabulary)
      : tokenizer_(tokenizer),
        stop_ids_(std::move(stop_ids)),
        compiler_(tokenizer, stop_ids_, vocabulary) {}

  GrammarCompiler& compiler() { return compiler_; }

  // "complete", "open" (more must follow), or the text up to where it was refused. `text` is
  // tokenised with the spellings of special tokens in it.
  std::string after(std::string_view lark, std::string_view text);

  // A reply drawn from the masks. Nothing: the mask was wrong (the test has failed), or it did not
  // end within so many tokens.
  std::optional<std::vector<TokenId>> walk(std::string_view lark, std::mt19937& random,
                                           int tokens_max);

  std::string text_of(const std::vector<TokenId>& ids) const;

 private:
  std::string verdict(GrammarMatcher& matcher);
  std::optional<TokenId> draw(std::span<const std::uint32_t> mask, std::mt19937& random,
                              bool wants_end) const;

  const Tokenizer& tokenizer_;
  std::vector<TokenId> stop_ids_;
  GrammarCompiler compiler_;
};

// Bytes, letters, and the formats' marks as special tokens or as ordinary ones.
Tokenizer tokenizer_with_marks(bool are_special);

struct Call {
  std::string name, arguments;
};

// What the format's parser finds in a reply.
std::vector<Call> calls_in(ReplyFormat format, const std::vector<ToolSpec>& specs,
                           const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                           bool are_constrained, std::string& text);

// The JSON object that the text is.
JsonObject object_of(std::string_view text);

bool is_allowed(std::span<const std::uint32_t> mask, TokenId id);
int count_allowed(std::span<const std::uint32_t> mask);

}  // namespace reprise::test
