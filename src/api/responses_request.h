// POST /v1/responses, read from JSON.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "api/limits.h"
#include "api/openai.h"
#include "api/responses_items.h"
#include "api/responses_tools.h"

namespace reprise {

// What the Responses API has beyond chat. The texts ending in _json are shown again in the reply.
struct ResponseExtras {
  std::optional<std::string> instructions;
  std::string previous_response_id;  // empty: none
  bool store = true;
  bool include_logprobs = false;
  std::optional<int> top_logprobs;
  ResponseTools tools;
  std::string tool_choice_json = "\"auto\"";
  std::string text_json = R"({"format":{"type":"text"}})";
  std::string metadata_json = "{}";
  std::optional<std::string> user;
  std::optional<std::string> prompt_cache_key;
  std::optional<std::string> safety_identifier;
};

struct ResponsesRequest {
  ChatRequest chat;  // without messages: these depend on the previous response
  ResponseExtras extras;
  std::vector<ResponseItem> input;  // ids only where the client gave some
};

// Errors: 400 with the field's path in `param` ("input[2].content[0].text").
ApiResult<ResponsesRequest> parse_responses_request(std::string_view body,
                                                    const Limits& limits = {});

// The request's JSON schema, for /openapi.json.
JsonObject responses_request_schema(const Limits& limits);

}  // namespace reprise
