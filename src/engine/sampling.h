// Logits to token ids. Pure: depends on the row, the parameters, the seed and the position only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "kernels/kernels.h"

namespace reprise {

struct SamplingParams {
  double temperature = 1.0;  // 0: greedy
  int top_k = 0;             // 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  std::uint64_t seed = 0;  // drawn by the accepting side when the client gave none
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;  // of the model's own distribution: before temperature and truncation
};

struct SampledToken {
  TokenId id = 0;
  float logprob = 0;  // set when logprobs were asked for
  std::vector<TokenLogprob>
      top;  // the `top_logprobs` most likely, best first; ties: lowest id first
};

// Chooses a token from one row of finite logits [vocabulary].
// Order: total order (logit descending, id ascending); temperature; top_k; top_p; min_p; then one
// draw by a counter-based generator (philox.h) keyed by (seed, choice, position). Greedy is the
// first of the order. top_logprobs < 0: no logprobs wanted.
//
// A token's weight is exp((logit - largest) / temperature), the exponent rounded to float. The
// weight of the whole vocabulary is the kernels' sum_exp; every other sum runs along the total
// order, of which only as much is sorted as the draw walks over.
class Sampler {
 public:
  explicit Sampler(const kernels::KernelTable& kernels) : kernels_(&kernels) {}
  SampledToken sample(std::span<const float> logits, const SamplingParams& params,
                      std::uint32_t choice, Position position, int top_logprobs);

 private:
  struct Candidate {
    float logit = 0;
    TokenId id = 0;
    bool operator<(const Candidate& other) const {  // the total order: better comes first
      return logit > other.logit || (logit == other.logit && id < other.id);
    }
  };
  struct Kept {
    std::size_t count = 0;  // the first so many of the order stay
    double weight = 0;      // their sum
  };

  const Candidate& ranked(std::span<const float> logits, std::size_t rank);
  void rank_first(std::span<const float> logits, std::size_t count);
  void hold(Candidate candidate, std::size_t count);
  double whole_weight(std::span<const float> logits, float largest, double temperature);
  Kept truncate(std::span<const float> logits, const SamplingParams& params, float largest);
  TokenId draw(std::span<const float> logits, const SamplingParams& params, float largest,
               std::uint64_t bits);

  const kernels::KernelTable* kernels_;
  // Scratch, reused: the first of the total order, sorted; exponents of a temperature other than 1.
  std::vector<Candidate> candidates_;
  std::vector<float> exponents_;
  std::vector<float> maxima_;  // of blocks of the row
};

}  // namespace reprise
