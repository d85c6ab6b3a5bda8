// Logits to token ids. Pure: depends on the row, the parameters, the tokens so far and the place
// only. There is no state of a sequence here: batches, chunks, drafts, preemption and the prompt
// cache cannot change what is sampled.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/logit_editor.h"
#include "engine/sampling_params.h"
#include "engine/token_order.h"
#include "kernels/kernels.h"

namespace reprise {

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;  // of the model's own distribution: before temperature and truncation
};

struct SampledToken {
  TokenId id = 0;
  float logprob = 0;  // set when logprobs were asked for
  // The `top_logprobs` most likely, best first; ties: lowest id first.
  std::vector<TokenLogprob> top = {};
};

// Chooses a token from one row of logits [vocabulary], each finite or -infinity.
//
// The order, whatever a request asks for: the row's edits (logit_editor.h: logit_bias; repetition,
// frequency and presence penalty; DRY; bans and mask); temperature; top_k; typical_p; top_p; min_p;
// XTC; one draw. Every step sees what the one before it left, as probabilities that sum to 1. The
// total order is (edited logit descending, id ascending). Temperature 0 is greedy: the first of the
// order, nothing else applies.
//
// A token's weight is exp(e), its exponent e = (logit - largest) / temperature rounded to float;
// what has the weight 0 is never sampled. The weight of the whole vocabulary is the kernels'
// sum_exp, its mean exponent is summed along the ids; every other sum runs along the total order
// (typical_p's mass along its own), of which only as much is sorted as a walk needs.
//
// typical_p keeps tokens by |-log p - entropy| = |mean exponent - e|, smallest first, equal ones in
// the total order, until they have the mass typical_p (source: Meister et al. 2022, as in Hugging
// Face's transformers). top_p and min_p keep the beginning of the order: min_p is measured by the
// likeliest that is left, which always stays. XTC (source: p-e-w, as in llama.cpp) takes away all
// tokens of at least the threshold but the least likely of them, with xtc_probability.
//
// Random numbers are counter-based (philox.h), keyed by (seed, choice, position): one for the draw,
// another for XTC.
class Sampler {
 public:
  explicit Sampler(const kernels::KernelTable& kernels) : kernels_(&kernels), order_(kernels) {}

  // nullopt: nothing may follow, edits left nothing. Logprobs are of the row as it came.
  std::optional<SampledToken> sample(std::span<const float> logits, const SamplingParams& params,
                                     const SamplingPlace& place, int top_logprobs);
  // What the row thinks of this token.
  SampledToken judge(std::span<const float> logits, TokenId id, int top_logprobs);

 private:
  // The row as it is sampled from.
  struct Row {
    std::span<const float> logits;
    float largest = 0;
    double temperature = 1;
  };
  // Ranks [first, end) of the total order stay.
  struct Kept {
    std::size_t first = 0, end = 0;
    double weight = 0;  // their sum
  };

  void rank_first(const Row& row, std::size_t count);
  double weight_at(const Row& row, std::size_t rank);
  void find_row_exponents(const Row& row);
  double whole_weight(const Row& row);
  double mean_exponent(const Row& row, const Kept& kept);
  Kept keep_top_k(const Row& row, int top_k);
  Kept keep_typical(const Row& row, const Kept& kept, double typical_p);
  Kept keep_likely(const Row& row, const Kept& kept, double top_p, double min_p);
  Kept pass_over_top(const Row& row, Kept kept, double threshold);
  TokenId draw(const Row& row, const SamplingParams& params, const SamplingPlace& place);

  const kernels::KernelTable* kernels_;
  LogitEditor editor_;
  TokenOrder order_;
  // Scratch, reused. By rank, as far as the total order is known:
  std::vector<TokenId> ids_;
  std::vector<float> exponents_, weights_;
  std::vector<float> row_exponents_, row_weights_;  // by id
};

}  // namespace reprise
