// The schemas of replies. What tests hold them to are the replies themselves (tests/e2e).
#include "api/openapi.h"
#include "base/check.h"

namespace reprise {
namespace {

// Members beyond these may come: nothing here says additionalProperties false.
constexpr std::string_view kOpenAiReplies = R"({
"Error":{"type":"object","required":["error"],"properties":{"error":{"type":"object",
  "required":["message","type","param","code"],"properties":{
    "message":{"type":"string"},"type":{"type":"string"},
    "param":{"type":["string","null"],"description":"The field's path: messages[2].content"},
    "code":{"type":"string"}}}}},
"Usage":{"type":"object","required":["prompt_tokens","completion_tokens","total_tokens",
    "prompt_tokens_details"],"properties":{
  "prompt_tokens":{"type":"integer"},"completion_tokens":{"type":"integer"},
  "total_tokens":{"type":"integer"},
  "prompt_tokens_details":{"type":"object","required":["cached_tokens"],"properties":{
    "cached_tokens":{"type":"integer"},"cache":{"type":"object"}}},
  "completion_tokens_details":{"type":"object","properties":{
    "reasoning_tokens":{"type":"integer"}}}}},
"ToolCall":{"type":"object","required":["function"],"properties":{
  "index":{"type":"integer"},"id":{"type":"string"},"type":{"const":"function"},
  "function":{"type":"object","required":["arguments"],"properties":{
    "name":{"type":"string"},"arguments":{"type":"string"}}}}},
"TokenLogprob":{"type":"object","required":["token","logprob","bytes"],"properties":{
  "token":{"type":"string"},"logprob":{"type":"number"},
  "bytes":{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"null"}]},
  "top_logprobs":{"type":"array","items":{"$ref":"#/components/schemas/TokenLogprob"}}}},
"ChatLogprobs":{"anyOf":[{"type":"null"},{"type":"object","properties":{
  "content":{"anyOf":[{"type":"null"},
    {"type":"array","items":{"$ref":"#/components/schemas/TokenLogprob"}}]}}}]},
"FinishReason":{"enum":["stop","length","tool_calls",null]},
"ChatMessage":{"type":"object","properties":{
  "role":{"const":"assistant"},"content":{"type":["string","null"]},
  "reasoning_content":{"type":"string"},"refusal":{"type":"null"},
  "tool_calls":{"type":"array","items":{"$ref":"#/components/schemas/ToolCall"}}}},
"ChatCompletion":{"type":"object","required":["id","object","created","model","choices","usage"],
  "properties":{"id":{"type":"string"},"object":{"const":"chat.completion"},
    "created":{"type":"integer"},"model":{"type":"string"},
    "system_fingerprint":{"type":"string"},
    "choices":{"type":"array","items":{"type":"object",
      "required":["index","message","finish_reason"],"properties":{
        "index":{"type":"integer"},"message":{"$ref":"#/components/schemas/ChatMessage"},
        "logprobs":{"$ref":"#/components/schemas/ChatLogprobs"},
        "finish_reason":{"$ref":"#/components/schemas/FinishReason"},
        "token_ids":{"type":"array","items":{"type":"integer"}},
        "prompt_token_ids":{"type":"array","items":{"type":"integer"}}}}},
    "usage":{"$ref":"#/components/schemas/Usage"}}},
"ChatCompletionChunk":{"type":"object","required":["id","object","created","model","choices"],
  "properties":{"id":{"type":"string"},"object":{"const":"chat.completion.chunk"},
    "created":{"type":"integer"},"model":{"type":"string"},
    "system_fingerprint":{"type":"string"},
    "choices":{"type":"array","items":{"type":"object",
      "required":["index","delta","finish_reason"],"properties":{
        "index":{"type":"integer"},"delta":{"$ref":"#/components/schemas/ChatMessage"},
        "logprobs":{"$ref":"#/components/schemas/ChatLogprobs"},
        "finish_reason":{"$ref":"#/components/schemas/FinishReason"}}}},
    "usage":{"anyOf":[{"type":"null"},{"$ref":"#/components/schemas/Usage"}]}}},
"Completion":{"type":"object","required":["id","object","created","model","choices"],
  "properties":{"id":{"type":"string"},"object":{"const":"text_completion"},
    "created":{"type":"integer"},"model":{"type":"string"},
    "system_fingerprint":{"type":"string"},
    "choices":{"type":"array","items":{"type":"object",
      "required":["index","text","finish_reason"],"properties":{
        "index":{"type":"integer"},"text":{"type":"string"},
        "logprobs":{"type":["object","null"]},
        "finish_reason":{"$ref":"#/components/schemas/FinishReason"}}}},
    "usage":{"anyOf":[{"type":"null"},{"$ref":"#/components/schemas/Usage"}]}}},
"Response":{"type":"object","required":["id","object","status","model","output"],"properties":{
  "id":{"type":"string"},"object":{"const":"response"},"created_at":{"type":"integer"},
  "status":{"enum":["in_progress","completed","incomplete","failed"]},
  "model":{"type":"string"},"output":{"type":"array","items":{"type":"object"}},
  "previous_response_id":{"type":["string","null"]},"usage":{"type":["object","null"]}}},
"ResponseEvent":{"type":"object","required":["type","sequence_number"],"properties":{
  "type":{"type":"string"},"sequence_number":{"type":"integer"}}},
"InputTokens":{"type":"object","required":["object","input_tokens"],"properties":{
  "object":{"const":"response.input_tokens"},"input_tokens":{"type":"integer"}}},
"DeletedResponse":{"type":"object","required":["id","deleted"],"properties":{
  "id":{"type":"string"},"object":{"type":"string"},"deleted":{"const":true}}},
"List":{"type":"object","required":["object","data"],"properties":{
  "object":{"const":"list"},"data":{"type":"array","items":{"type":"object"}}}},
"Model":{"type":"object","required":["id","object","created","owned_by"],"properties":{
  "id":{"type":"string"},"object":{"const":"model"},"created":{"type":"integer"},
  "owned_by":{"type":"string"},
  "max_model_len":{"type":"integer","description":"The longest prompt that is served."}}},
"ModelList":{"type":"object","required":["object","data"],"properties":{
  "object":{"const":"list"},
  "data":{"type":"array","items":{"$ref":"#/components/schemas/Model"}}}}
})";

constexpr std::string_view kOwnReplies = R"({
"LlamaCompletion":{"type":"object","required":["content","stop"],"properties":{
  "index":{"type":"integer"},"content":{"type":"string"},"stop":{"type":"boolean"},
  "tokens":{"type":"array","items":{"type":"integer"}},"model":{"type":"string"},
  "tokens_predicted":{"type":"integer"},"tokens_evaluated":{"type":"integer"},
  "tokens_cached":{"type":"integer"},"stop_type":{"type":"string"},
  "stopping_word":{"type":"string"},"truncated":{"const":false},"timings":{"type":"object"},
  "generation_settings":{"type":"object"},
  "completion_probabilities":{"type":"array","items":{"type":"object"}}}},
"LlamaCompletions":{"description":"Of several choices a list.","anyOf":[
  {"$ref":"#/components/schemas/LlamaCompletion"},
  {"type":"array","items":{"$ref":"#/components/schemas/LlamaCompletion"}}]},
"Tokens":{"type":"object","required":["tokens"],"properties":{"tokens":{"type":"array",
  "items":{"anyOf":[{"type":"integer"},{"type":"object","required":["id","piece"],
    "properties":{"id":{"type":"integer"},"piece":{}}}]}}}},
"DetokenizedText":{"type":"object","required":["content"],"properties":{
  "content":{"type":"string"}}},
"Prompt":{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string"}}},
"Root":{"type":"object","required":["name","version"],"properties":{
  "name":{"const":"reprise"},"version":{"type":"string"},"api":{"type":"string"},
  "health":{"type":"string"},"openapi":{"type":"string"}}},
"Health":{"type":"object","required":["status"],"properties":{
  "status":{"enum":["ok","loading","stopping","failed"]},"model":{"type":"string"},
  "running":{"type":"integer"},"waiting":{"type":"integer"},"reason":{"type":"string"}}},
"Props":{"type":"object","properties":{"default_generation_settings":{"type":"object"},
  "total_slots":{"type":"integer"},"model_alias":{"type":"string"},"n_ctx":{"type":"integer"},
  "chat_template":{"type":"string"},"bos_token":{"type":"string"},
  "eos_token":{"type":"string"},"build_info":{"type":"string"}}},
"CacheStats":{"type":"object","properties":{"enabled":{"type":"boolean"},
  "capacity_bytes":{"type":"integer"},"entries":{"type":"integer"},"nodes":{"type":"integer"},
  "bytes":{"type":"integer"},"lookups":{"type":"integer"},"hits":{"type":"integer"},
  "hit_rate":{"type":"number"},"tokens_reused":{"type":"integer"},
  "inserts":{"type":"integer"},"evictions_lru":{"type":"integer"},
  "evictions_ttl":{"type":"integer"}}},
"CacheTree":{"type":"object","required":["object","runs","truncated"],"properties":{
  "object":{"const":"cache.tree"},"runs":{"type":"array","items":{"type":"object"}},
  "truncated":{"type":"boolean"}}},
"CacheReset":{"type":"object","required":["cleared","freed_bytes","freed_entries"],"properties":{
  "cleared":{"const":true},"freed_bytes":{"type":"integer"},
  "freed_entries":{"type":"integer"}}},
"Document":{"type":"object","required":["openapi","paths"],"properties":{
  "openapi":{"type":"string"},"paths":{"type":"object"}}}
})";

void add_schemas(JsonObject& schemas, std::string_view json) {
  Result<JsonValue> value = parse_json(json);
  CHECK(value && value->is_object());  // ours
  for (auto& member : value->get_object()) schemas[member.key()] = std::move(member.value());
}

}  // namespace

JsonObject reply_schemas() {
  JsonObject schemas;
  add_schemas(schemas, kOpenAiReplies);
  add_schemas(schemas, kOwnReplies);
  return schemas;
}

}  // namespace reprise
