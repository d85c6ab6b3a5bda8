// One request of a graph as plain data, and the answer to it as bytes.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"

namespace reprise::testing {

struct GraphRequest {
  std::vector<TokenId> prompt;
  Position history_boundary = 0;
  std::vector<Position> turn_ends;
  Position max_tokens = 1;
  SamplingParams sampling;
  std::uint32_t choice = 0;
  std::vector<TokenId> stop_ids;  // end-of-sequence tokens
  std::vector<TokenId> banned_ids;
  Position min_tokens = 0;
  std::vector<TokenId> stop_text_ids;  // the sink says stop after one of these
  int top_logprobs = -1;
  CacheScope scope;
  bool use_cache = true;
  std::int64_t pin_ms = 0;
  Priority priority = Priority::normal;

  bool stops_text(TokenId id) const {
    return std::ranges::find(stop_text_ids, id) != stop_text_ids.end();
  }
  GenerationRequest with_sink(std::unique_ptr<SequenceSink> sink) const;
  // For a failure's report: all that is needed to see what was asked.
  std::string describe() const;
};

// What came of a request. Equal answers have equal bytes: ids, logprobs and top logprobs.
struct Answer {
  std::vector<TokenId> ids;
  std::string bytes;
  std::optional<FinishReason> reason;  // nullopt: it is not over yet

  void add(const SampledToken& token);
};

}  // namespace reprise::testing
