// What the engine refuses before it accepts a request: what could go wrong later, or never fit.
#pragma once
#include "base/error.h"
#include "engine/request.h"
#include "kv/kv_layout.h"

namespace reprise {

class RequestCheck {
 public:
  // `context_length`: tokens of a sequence; `kv_budget_bytes`: what its keys and values may take.
  RequestCheck(KvLayout layout, int vocabulary, Position context_length,
               std::size_t kv_budget_bytes);

  // Errors name the field: invalid_argument (a value out of range, an id outside the vocabulary,
  // the context length), exhausted (the KV budget can never hold prompt and max_tokens).
  Status check(const GenerationRequest& request) const;
  // The longest sequence that the KV budget holds when it runs alone, at most the context length.
  Position fitting_length() const { return fitting_length_; }

 private:
  Status check_ids(std::span<const TokenId> ids, const char* field) const;
  Status check_lengths(const GenerationRequest& request) const;
  Status check_marks(const GenerationRequest& request) const;
  Status check_edits(const SamplingParams& sampling) const;

  KvLayout layout_;
  int vocabulary_;
  Position context_length_;
  std::size_t kv_budget_bytes_;
  Position fitting_length_;
};

}  // namespace reprise
