// A constraint that knows no words: what may follow hangs on all tokens so far. It checks that it
// is used as agreed.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/request.h"
#include "support/tiny_vocabulary.h"

namespace reprise::testing {

struct FakeGrammarOptions {
  std::uint32_t seed = 0;
  int length = 1000;                   // tokens of a complete reply
  int third = 3;                       // one token in so many may follow
  std::vector<TokenId> stop_ids = {};  // may follow now and then
  int fails_in_mask_at = -1;           // after so many tokens
  int fails_in_advance_at = -1;
  int mask_ms = 0;                  // so long a mask takes at least
  bool is_empty_at_length = false;  // in place of saying that it is complete: no token may follow
};

class FakeGrammar final : public TokenConstraint {
 public:
  explicit FakeGrammar(FakeGrammarOptions options) : options_(std::move(options)) {}

  Status compute_mask() override {
    const Use use(*this);
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.mask_ms));
    EXPECT_FALSE(has_mask_) << "the newest mask is of this place";
    if (count_ == options_.fails_in_mask_at) return fail(Errc::exhausted, "the mask is too dear");
    mask_ = mask_of();
    has_mask_ = true;
    return {};
  }
  std::span<const std::uint32_t> mask() const override {
    EXPECT_TRUE(has_mask_);
    return mask_;
  }
  Result<bool> advance(TokenId token) override {
    const Use use(*this);
    EXPECT_TRUE(has_mask_);
    EXPECT_TRUE(mask_[static_cast<std::size_t>(token / 32)] >> (token % 32) & 1) << token;
    EXPECT_EQ(std::ranges::count(options_.stop_ids, token), 0);
    has_mask_ = false;
    if (count_ == options_.fails_in_advance_at) return fail(Errc::corrupt, "the token is wrong");
    state_ = state_ * 31 + static_cast<std::uint32_t>(token) + 1;
    count_++;
    return options_.is_empty_at_length || count_ < options_.length;
  }

 private:
  // Never by two threads at once.
  class Use {
   public:
    explicit Use(FakeGrammar& grammar) : grammar_(&grammar) {
      EXPECT_FALSE(grammar.is_in_use_.exchange(true));
    }
    ~Use() { grammar_->is_in_use_ = false; }

   private:
    FakeGrammar* grammar_;
  };

  std::vector<std::uint32_t> mask_of() const {
    std::vector<std::uint32_t> mask((kTinyVocabulary + 31) / 32);
    if (count_ >= options_.length) return mask;
    const auto allow = [&](TokenId id) {
      mask[static_cast<std::size_t>(id / 32)] |= std::uint32_t{1} << (id % 32);
    };
    const std::uint32_t state = state_ + options_.seed;
    for (TokenId id = 0; id < kTinyVocabulary; id++) {
      const bool is_stop = std::ranges::count(options_.stop_ids, id) > 0;
      const std::uint32_t mixed = (static_cast<std::uint32_t>(id) * 2654435761u) ^ (state * 40503u);
      if (!is_stop && (mixed >> 7) % static_cast<std::uint32_t>(options_.third) == 0) allow(id);
      if (is_stop && state % 3 == 0) allow(id);
    }
    return mask;
  }

  FakeGrammarOptions options_;
  std::vector<std::uint32_t> mask_;
  bool has_mask_ = false;
  std::uint32_t state_ = 1;
  int count_ = 0;
  std::atomic<bool> is_in_use_ = false;
};

}  // namespace reprise::testing
