// Grammars that say which tokens may come next, over llguidance.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "text/tokenizer.h"

namespace reprise {

// Where one reply stands in its grammar. Not for two threads at once.
class GrammarMatcher {
 public:
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;
  ~GrammarMatcher();

  // Another reply that stands at the same place; much cheaper than to compile again.
  Result<GrammarMatcher> copy() const;

  // Which tokens may follow. Where the text can go on in one way only, that is one token: the
  // tokenizer's own, so that a prompt with the reply in it has the same tokens. Errors: exhausted
  // (a limit of the matcher: named), invalid_argument (no token of the vocabulary can follow).
  // After one the matcher is of no use.
  Status compute_mask();
  // Of the newest compute_mask: bit id % 32 of word id / 32. Every stop id's bit is set when the
  // reply may end here.
  std::span<const std::uint32_t> mask() const;
  // Goes on by a token of the mask. False: nothing can follow. Errors: invalid_argument (not in the
  // mask), exhausted.
  Result<bool> advance(TokenId token);

 private:
  friend class GrammarCompiler;
  struct State;
  explicit GrammarMatcher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The vocabulary as grammars need it: a tree of all tokens' bytes. It is built on first use, on a
// thread of its own. Any thread may use this.
class GrammarCompiler {
 public:
  // `vocabulary`: ids of the model end before it. The tokenizer must outlive this.
  GrammarCompiler(const Tokenizer& tokenizer, std::vector<TokenId> stop_ids, int vocabulary);
  GrammarCompiler(GrammarCompiler&&) noexcept;
  ~GrammarCompiler();

  // Begins to build, if nobody did; does not wait.
  void prepare();

  // A grammar in llguidance's Lark dialect. Waits for the vocabulary. Schemas in it must have come
  // from checked_schema (text/json_schema.h): llguidance passes over keywords that it does not
  // know. Errors: invalid_argument (the grammar or a schema in it is wrong or contradicts itself;
  // one line), unsupported (a keyword of JSON schema), exhausted (larger than the limits), io (no
  // thread or memory for it: the grammar is not at fault).
  Result<GrammarMatcher> compile(std::string_view lark);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
