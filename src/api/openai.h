// OpenAI's requests, read from JSON: what a client asked for, checked field by field.
#pragma once
#include <array>
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
#include "text/reply_grammar.h"

namespace reprise {

// What all generating endpoints read. A member that is null counts as absent.
struct GenerationFields {
  std::string model;
  std::optional<Position> max_tokens;
  Position min_tokens = 0;
  bool ignore_eos = false;
  int choices = 1;          // "n": replies to one prompt
  SamplingParams sampling;  // seed as given, see has_seed; without dry.breakers
  std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};  // "dry_sequence_breakers"
  bool has_seed = false;
  std::vector<std::string> stop;        // none empty
  std::vector<TokenId> stop_token_ids;  // checked against the vocabulary by prepare
  bool stream = false;
  bool include_usage = false;
  bool return_progress = false;   // a stream tells how far the prompt is
  int top_logprobs = -1;          // -1: no logprobs wanted
  bool return_token_ids = false;  // our extension: token ids beside the text
  std::string cache_salt;         // law L8
  bool use_cache = true;          // "cache_prompt"
  bool cache_details = false;     // usage says what the cache did
  std::int64_t cache_pin_seconds = 0;
  Priority priority = Priority::normal;
  std::optional<std::int64_t> timeout_ms;
  std::vector<std::string> unknown;         // fields that we ignore
  std::vector<std::string> tools_left_out;  // types of tools that the model is not offered
};

// What "reasoning_effort" may say.
inline constexpr std::array<std::string_view, 7> kReasoningEfforts = {
    "none", "minimal", "low", "medium", "high", "xhigh", "max"};

// The functions that a reply may call.
struct Tools {
  JsonArray definitions;            // as given, for the chat template
  std::vector<std::string> places;  // of the same, where each stands: "tools[0].function"
  std::vector<ToolSpec> specs;      // the same, in the same order; only those that may be called
  ToolChoice choice = ToolChoice::none;  // a named function: required, and the only spec
  bool parallel = true;                  // more than one call in a reply
  bool is_named = false;                 // tool_choice names the function: exactly one call
};

// What the client calls the fields that trouble is found with after parsing.
struct ParamNames {
  std::string_view messages = "messages";
  std::string_view max_tokens = "max_tokens";
  std::string_view logprobs = "top_logprobs";
  std::string_view schema = "response_format.json_schema.schema";
};

struct ChatRequest {
  GenerationFields fields;
  std::vector<ChatMessage> messages;
  Tools tools;
  std::optional<JsonObject> schema;            // the reply is one JSON value by this schema
  JsonObject template_variables;               // "chat_template_kwargs"
  std::string reasoning_effort;                // a word of kReasoningEfforts; empty: not given
  std::optional<bool> adds_generation_prompt;  // "add_generation_prompt"; absent: as it must be
  bool continues = false;                      // "continue_final_message", or a message's prefix
  std::string prefix;  // where the last message has "prefix": "messages[2].prefix"; else empty
  ParamNames names;
};

using PromptInput = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  GenerationFields fields;
  std::vector<PromptInput> prompts;  // at least one
  bool echo = false;                 // the reply begins with the prompt
  std::optional<JsonObject> schema;  // llama-server's "json_schema"
  ParamNames names{.logprobs = "logprobs", .schema = "json_schema"};
};

// Errors: 400 with the field's path in `param`; codes invalid_json, missing_required_parameter,
// invalid_type, invalid_value (both numbers in the message), unsupported_parameter.
ApiResult<ChatRequest> parse_chat_request(std::string_view body, const Limits& limits = {});
ApiResult<CompletionRequest> parse_completion_request(std::string_view body,
                                                      const Limits& limits = {});
// llama-server's POST /completion: its names for the same things (n_predict, n_probs ...).
ApiResult<CompletionRequest> parse_llama_completion_request(std::string_view body,
                                                            const Limits& limits = {});

// POST /tokenize {"content" or "prompt" or "messages", "add_special", "parse_special",
// "with_pieces"}; with messages also what else their prompt is made of (tools ...).
struct TokenizeRequest {
  std::string model;
  std::string content;
  std::optional<ChatRequest> chat;  // instead of content: messages, tools, template's variables
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
  std::vector<std::string> unknown;  // fields that we ignore
};
ApiResult<TokenizeRequest> parse_tokenize_request(std::string_view body, const Limits& limits = {});
// POST /detokenize {"tokens": [...]}.
struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
  std::vector<std::string> unknown;  // fields that we ignore
};
ApiResult<DetokenizeRequest> parse_detokenize_request(std::string_view body,
                                                      const Limits& limits = {});

}  // namespace reprise
