// OpenAI's requests, read from JSON: what a client asked for, checked field by field.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/api_error.h"
#include "api/limits.h"
#include "base/types.h"
#include "engine/request.h"
#include "engine/sampling.h"
#include "text/chat_template.h"

namespace reprise {

// What both generating endpoints read. null counts as absent everywhere.
struct GenerationFields {
  std::string model;
  std::optional<Position> max_tokens;
  SamplingParams sampling;  // seed as given, see has_seed
  bool has_seed = false;
  std::vector<std::string> stop;  // none empty
  bool stream = false;
  bool include_usage = false;
  int top_logprobs = -1;          // -1: no logprobs wanted
  bool return_token_ids = false;  // our extension: token ids beside the text
  std::string cache_salt;         // law L8
  bool use_cache = true;          // "cache_prompt"
  bool cache_details = false;     // usage says what the cache did
  std::int64_t cache_pin_seconds = 0;
  Priority priority = Priority::normal;
  std::optional<std::int64_t> timeout_ms;
  std::vector<std::string> unknown;  // fields that we ignore
};

struct ChatRequest {
  GenerationFields fields;
  std::vector<ChatMessage> messages;  // roles system, user, assistant
};

struct CompletionRequest {
  GenerationFields fields;
  std::variant<std::string, std::vector<TokenId>> prompt;
};

// Errors: 400 with the field's path in `param`; codes invalid_json, missing_required_parameter,
// invalid_type, invalid_value (both numbers in the message), unsupported_parameter.
ApiResult<ChatRequest> parse_chat_request(std::string_view body, const Limits& limits = {});
ApiResult<CompletionRequest> parse_completion_request(std::string_view body,
                                                      const Limits& limits = {});

}  // namespace reprise
