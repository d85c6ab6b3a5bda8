// Token ids that clients name.
#include "api/prepare_tokens.h"

#include <algorithm>
#include <string>

#include <fmt/core.h>

namespace reprise {
namespace {

ApiStatus check_id(TokenId id, int vocabulary, const std::string& param) {
  if (id >= 0 && id < vocabulary) return {};
  return refuse(400, "invalid_value",
                fmt::format("{}: got token id {}, expected 0 to {}", param, id, vocabulary - 1),
                param);
}

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::ranges::find(ids, id) != ids.end();
}

}  // namespace

ApiStatus check_token_fields(const GenerationFields& fields, int vocabulary) {
  for (std::size_t index = 0; index < fields.stop_token_ids.size(); index++) {
    TRY(check_id(fields.stop_token_ids[index], vocabulary,
                 fmt::format("stop_token_ids[{}]", index)));
  }
  for (const LogitBias& bias : fields.sampling.logit_bias) {
    TRY(check_id(bias.id, vocabulary, fmt::format("logit_bias.{}", bias.id)));
  }
  return {};
}

EndingIds ending_ids(const GenerationFields& fields, const std::vector<TokenId>& model_stops) {
  EndingIds ids;
  for (const TokenId id : fields.stop_token_ids) {
    if (!contains(ids.stops, id)) ids.stops.push_back(id);
  }
  for (const TokenId id : model_stops) {
    if (contains(ids.stops, id)) continue;
    (fields.ignore_eos ? ids.banned : ids.stops).push_back(id);
  }
  return ids;
}

SamplingParams complete_sampling(const GenerationFields& fields, const SequenceBreakers& breakers) {
  SamplingParams sampling = fields.sampling;
  if (sampling.dry.multiplier > 0) sampling.dry.breakers = breakers.find(fields.dry_breakers);
  return sampling;
}

}  // namespace reprise
