// Pieces of replies in OpenAI's exact form.
#include "api/openai_format.h"

#include <fmt/core.h>

#include "base/hash.h"
#include "kernels/kernels.h"
#include "kv/prompt_cache.h"

namespace reprise {

void begin_reply(JsonWriter& json, const ReplyIdentity& identity, std::string_view object) {
  json.begin_object();
  json.key("id").text(identity.id);
  json.key("object").text(object);
  json.key("created").integer(identity.created);
  json.key("model").text(identity.model);
  json.key("system_fingerprint").text(identity.fingerprint);
}

void append_token_ids(JsonWriter& json, const std::vector<TokenId>& ids) {
  json.begin_array();
  for (const TokenId id : ids) json.integer(id);
  json.end_array();
}

void end_choice(JsonWriter& json, const ChoiceTail& tail) {
  json.key("logprobs").raw(tail.logprobs);
  json.key("finish_reason");
  if (tail.finish_reason.empty()) {
    json.null();
  } else {
    json.text(tail.finish_reason);
  }
  if (tail.prompt_token_ids) {
    append_token_ids(json.key("prompt_token_ids"), *tail.prompt_token_ids);
  }
  if (tail.token_ids) append_token_ids(json.key("token_ids"), *tail.token_ids);
  json.end_object();
}

void append_cache_details(JsonWriter& json, const Usage& usage) {
  json.begin_object();
  json.key("result").text(usage.cached_tokens > 0 ? "hit" : "miss");
  json.key("reason");
  if (usage.cached_tokens > 0 || !usage.miss) {
    json.null();
  } else {
    json.text(miss_reason_name(*usage.miss));
  }
  json.key("matched").integer(usage.cached_tokens);
  json.key("diverged_at").integer(usage.diverged_at);
  json.key("retokenised_at");
  if (usage.retokenised_at) {
    json.integer(*usage.retokenised_at);
  } else {
    json.null();
  }
  json.key("pinned").boolean(usage.is_pinned);
  json.end_object();
}

void append_usage(JsonWriter& json, const Usage& usage, CacheDetails details,
                  std::optional<Position> reasoning_tokens) {
  json.key("usage").begin_object();
  json.key("prompt_tokens").integer(usage.prompt_tokens);
  json.key("completion_tokens").integer(usage.completion_tokens);
  json.key("total_tokens").integer(usage.prompt_tokens + usage.completion_tokens);
  json.key("prompt_tokens_details").begin_object();
  json.key("cached_tokens").integer(usage.cached_tokens);
  if (details == CacheDetails::yes) append_cache_details(json.key("cache"), usage);
  json.end_object();
  if (reasoning_tokens) {
    json.key("completion_tokens_details").begin_object();
    json.key("reasoning_tokens").integer(*reasoning_tokens);
    json.end_object();
  }
  json.end_object();
}

std::string server_sent_event(std::string_view data) {
  return fmt::format("data: {}\n\n", data);
}

std::string cache_header(const Usage& usage) {
  const std::string_view reason = usage.miss ? miss_reason_name(*usage.miss) : "unknown";
  std::string text = usage.cached_tokens > 0 ? fmt::format("hit; matched={}", usage.cached_tokens)
                                             : fmt::format("miss; reason={}; diverged_at={}",
                                                           reason, usage.diverged_at);
  if (usage.retokenised_at) text += fmt::format("; retokenised_at={}", *usage.retokenised_at);
  return text;
}

std::string system_fingerprint(std::string_view model_fingerprint) {
  return fmt::format("fp_{}-n{}", model_fingerprint.substr(0, 12), kernels::kNumericVersion);
}

std::string tool_call_id(std::string_view reply_id, int choice, std::size_t call) {
  return "call_" + sha256_hex(fmt::format("{}/{}/{}", reply_id, choice, call)).substr(0, 24);
}

}  // namespace reprise
