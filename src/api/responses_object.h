// The response object of OpenAI's Responses API.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "api/openai_format.h"
#include "api/responses_items.h"
#include "api/responses_request.h"
#include "api/responses_store.h"
#include "base/types.h"
#include "engine/request.h"

namespace reprise {

// What a reply repeats of its request, and what is to be kept of it.
struct ResponsePlan {
  ResponseExtras extras;
  std::string tenant;
  std::vector<ResponseItem> items;  // the conversation up to the reply; empty: it is not to be kept
  ConversationClaim claim;          // for these
  bool stream = false;
  bool use_cache = true;
  CacheDetails cache_details = CacheDetails::no;
  std::optional<Position> max_output_tokens;
  double temperature = 1;
  double top_p = 1;
  int top_logprobs = -1;
  bool parallel_tool_calls = true;
  std::string reasoning_effort;
};

enum class ResponseStatus : std::uint8_t { in_progress, completed, incomplete, failed };

// What changes while a response comes into being.
struct ResponseProgress {
  ResponseStatus status = ResponseStatus::in_progress;
  std::int64_t completed_at = 0;  // seconds; written when completed
  std::span<const ResponseItem> output = {};
  const Usage* usage = nullptr;  // null: not known yet
  Position reasoning_tokens = 0;
  const ApiError* error = nullptr;  // of a failed one
};

class ResponseObject {
 public:
  ResponseObject(std::string id, std::string model, std::int64_t created_at)
      : id_(std::move(id)), model_(std::move(model)), created_at_(created_at) {}

  const std::string& id() const { return id_; }
  // The object as JSON.
  std::string write(const ResponsePlan& plan, const ResponseProgress& progress) const;

 private:
  std::string id_;
  std::string model_;
  std::int64_t created_at_;
};

}  // namespace reprise
