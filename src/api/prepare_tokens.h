// The parts of a request that speak of tokens, checked against the model's vocabulary.
#pragma once
#include <vector>

#include "api/api_error.h"
#include "api/bundle.h"
#include "api/openai.h"

namespace reprise {

// Errors: 400 invalid_value naming stop_token_ids[i] or logit_bias.<id>, with both numbers.
ApiStatus check_token_fields(const GenerationFields& fields, int vocabulary);

// The ids that end a reply and those that it may not have.
struct EndingIds {
  std::vector<TokenId> stops;
  std::vector<TokenId> banned;
};
// With ignore_eos the model's own stop tokens are banned, but for those that the client names.
EndingIds ending_ids(const GenerationFields& fields, const std::vector<TokenId>& model_stops);

// As the client gave it, with the tokens that its strings stand for.
SamplingParams complete_sampling(const GenerationFields& fields, const SequenceBreakers& breakers);

}  // namespace reprise
