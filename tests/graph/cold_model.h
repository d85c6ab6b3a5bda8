// Cold answers: the whole prompt forwarded at once into an empty sequence, no cache, no scheduler.
#pragma once
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/sampling.h"
#include "graph/graph_request.h"
#include "kv/page_pool.h"
#include "model/decoder.h"

namespace reprise::testing {

class ColdModel {
 public:
  // For requests of at most `length_max` tokens, prompt and reply together.
  ColdModel(const Model& model, ThreadPool& threads, kernels::KvType kv_type, int length_max);

  // The answer to `request` as far as `guide` (the ids of the answer to be judged) agrees with it:
  // all of it when the guide is right and whole, else up to the first token that differs, or that
  // the guide lacks. The reply's rows are forwarded with the prompt's, and rows of a longer
  // sequence that begins alike serve too: a row's logits depend on the tokens before it only (law
  // L1), so each row whose predecessors agree is the cold run's.
  Answer answer(const GraphRequest& request, std::span<const TokenId> guide);
  // Lets go of the rows that were forwarded so far.
  void forget() { forwarded_.clear(); }

 private:
  struct Rows {
    std::vector<TokenId> tokens;
    std::vector<float> logits;  // [tokens, vocabulary]
  };
  const Rows& forward(std::vector<TokenId> tokens);

  PagePool pages_;
  std::size_t vocabulary_;
  Decoder decoder_;
  Sampler sampler_;
  std::vector<Rows> forwarded_;
};

}  // namespace reprise::testing
