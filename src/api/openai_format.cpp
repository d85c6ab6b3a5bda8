// Replies in OpenAI's exact form.
#include "api/openai_format.h"

#include <fmt/core.h>

#include "api/json_writer.h"
#include "kernels/kernels.h"
#include "kv/prompt_cache.h"

namespace reprise {
namespace {

void begin_reply(JsonWriter& json, const ReplyIdentity& identity, std::string_view object) {
  json.begin_object();
  json.key("id").text(identity.id);
  json.key("object").text(object);
  json.key("created").integer(identity.created);
  json.key("model").text(identity.model);
  json.key("system_fingerprint").text(identity.fingerprint);
}

void append_ids(JsonWriter& json, std::string_view name, const std::vector<TokenId>* ids) {
  if (!ids) return;
  json.key(name).begin_array();
  for (const TokenId id : *ids) json.integer(id);
  json.end_array();
}

// What follows the text in a choice of any form, up to its closing brace.
void end_choice(JsonWriter& json, const ReplyChoice& choice) {
  json.key("logprobs").raw(choice.logprobs);
  json.key("finish_reason");
  if (choice.finish_reason.empty()) {
    json.null();
  } else {
    json.text(choice.finish_reason);
  }
  append_ids(json, "prompt_token_ids", choice.prompt_token_ids);
  append_ids(json, "token_ids", choice.token_ids);
  json.end_object();
}

void append_cache_details(JsonWriter& json, const Usage& usage) {
  json.key("cache").begin_object();
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

void append_usage(JsonWriter& json, const Usage& usage, CacheDetails details) {
  json.key("usage").begin_object();
  json.key("prompt_tokens").integer(usage.prompt_tokens);
  json.key("completion_tokens").integer(usage.completion_tokens);
  json.key("total_tokens").integer(usage.prompt_tokens + usage.completion_tokens);
  json.key("prompt_tokens_details").begin_object();
  json.key("cached_tokens").integer(usage.cached_tokens);
  if (details == CacheDetails::yes) append_cache_details(json, usage);
  json.end_object().end_object();
}

void append_delta(JsonWriter& json, ChunkPart part, std::string_view text) {
  json.key("delta").begin_object();
  if (part == ChunkPart::role) json.key("role").text("assistant");
  if (part != ChunkPart::finish) json.key("content").text(text);
  json.end_object();
}

std::string_view chunk_object(ReplyKind kind) {
  return kind == ReplyKind::chat ? "chat.completion.chunk" : "text_completion";
}

}  // namespace

std::string format_reply(const ReplyIdentity& identity, const ReplyChoice& choice,
                         const Usage& usage, CacheDetails details) {
  const bool is_chat = identity.kind == ReplyKind::chat;
  JsonWriter json;
  begin_reply(json, identity, is_chat ? "chat.completion" : "text_completion");
  json.key("choices").begin_array().begin_object();
  json.key("index").integer(0);
  if (is_chat) {
    json.key("message").begin_object();
    json.key("role").text("assistant");
    json.key("content").text(choice.text);
    json.key("refusal").null();
    json.end_object();
  } else {
    json.key("text").text(choice.text);
  }
  end_choice(json, choice);
  json.end_array();
  append_usage(json, usage, details);
  return json.end_object().take();
}

std::string format_chunk(const ReplyIdentity& identity, ChunkPart part, const ReplyChoice& choice,
                         bool include_usage) {
  JsonWriter json;
  begin_reply(json, identity, chunk_object(identity.kind));
  json.key("choices").begin_array().begin_object();
  json.key("index").integer(0);
  if (identity.kind == ReplyKind::chat) {
    append_delta(json, part, choice.text);
  } else {
    json.key("text").text(choice.text);
  }
  end_choice(json, choice);
  json.end_array();
  if (include_usage) json.key("usage").null();
  return json.end_object().take();
}

std::string format_usage_chunk(const ReplyIdentity& identity, const Usage& usage,
                               CacheDetails details) {
  JsonWriter json;
  begin_reply(json, identity, chunk_object(identity.kind));
  json.key("choices").begin_array().end_array();
  append_usage(json, usage, details);
  return json.end_object().take();
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

}  // namespace reprise
