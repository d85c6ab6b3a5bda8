// What a request changes in a row of logits before anything is drawn from it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/repeats.h"
#include "engine/sampling_params.h"

namespace reprise {

// Where a token is sampled, and what stands there already.
struct SamplingPlace {
  std::uint32_t choice = 0;
  Position position = 0;                 // of the token that is sampled
  std::span<const TokenId> tokens = {};  // all before it: prompt, then reply
  Position prompt_length = 0;            // so many of them are the prompt
  // TokenConstraint::mask: ids behind its end may not follow.
  std::span<const std::uint32_t> mask = {};
  std::span<const TokenId> banned = {};        // never sampled
  std::span<const TokenId> banned_stops = {};  // nor these, yet
};

// A token's logit becomes, in double, kept finite after each step and rounded to float once:
//   l + bias;
//   divided by repetition_penalty where positive, else times it, when the token stands among the
//     newest repetition_window of all tokens (source: Keskar et al. 2019, as in Hugging Face's
//     transformers and vLLM; the window as in llama.cpp);
//   less count * frequency_penalty + presence_penalty, when it stands count > 0 times in the reply
//     (source: OpenAI's API reference, vLLM): two subtractions, in this order;
//   less what DRY takes (DryParams).
// What is banned, or not in the mask, becomes -infinity, which nothing brings back.
class LogitEditor {
 public:
  // Whether edit() would change anything.
  static bool is_needed(const SamplingParams& params, const SamplingPlace& place);
  // A copy of the row with the edits, valid until the next call.
  // O(vocabulary + tokens looked at).
  std::span<const float> edit(std::span<const float> logits, const SamplingParams& params,
                              const SamplingPlace& place);

 private:
  struct Edit {
    TokenId id = 0;
    double bias = 0;
    std::uint32_t count = 0;  // in the reply
    bool is_repeated = false;
    double dry_loss = 0;
  };
  Edit& edit_of(TokenId id);
  void collect(const SamplingParams& params, const SamplingPlace& place);
  void collect_repeats(const DryParams& dry, std::span<const TokenId> tokens);
  void apply(const SamplingParams& params);
  void ban(const SamplingPlace& place);

  std::vector<float> row_;
  std::vector<Edit> edits_;
  std::vector<std::uint32_t> places_;  // by id: its edit's number + 1, or 0; all 0 between calls
  RepeatFinder repeats_;
  std::vector<double> losses_;  // DRY's, by how much longer a stretch is than allowed
};

}  // namespace reprise
