// The server about itself.
#include "api/server_answers.h"

#include <fmt/core.h>

#include "api/bundle.h"
#include "api/json_writer.h"
#include "api/llama_format.h"

namespace reprise {
namespace {

std::string_view special_text(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? tokenizer.token_bytes(*id) : std::string_view();
}

// What a request gets that names nothing.
void append_default_settings(JsonWriter& json, Position context_length) {
  json.begin_object();
  json.key("n_ctx").integer(context_length);
  json.key("params").begin_object();
  json.key("n_predict").integer(-1);
  append_llama_sampling(json, SamplingParams());
  json.end_object().end_object();
}

}  // namespace

ServerHealth server_health(const EngineStats& stats, std::string_view model, bool is_stopping,
                           bool shows_counts) {
  const bool has_failed = !stats.failure.empty();
  JsonWriter json;
  json.begin_object();
  json.key("status").text(has_failed ? "failed" : is_stopping ? "stopping" : "ok");
  if (has_failed) json.key("reason").text(stats.failure);
  json.key("model").text(model);
  if (shows_counts) {
    json.key("running").integer(stats.running);
    json.key("waiting").integer(stats.waiting);
  }
  return {has_failed || is_stopping ? 503 : 200, json.end_object().take()};
}

std::string root_body() {
  JsonWriter json;
  json.begin_object();
  json.key("name").text("reprise");
  json.key("version").text(REPRISE_VERSION);
  json.key("api").text("/v1");
  json.key("health").text("/health");
  json.key("openapi").text("/openapi.json");
  return json.end_object().take();
}

std::string model_body(std::string_view model, std::int64_t created, Position longest) {
  JsonWriter json;
  json.begin_object();
  json.key("id").text(model);
  json.key("object").text("model");
  json.key("created").integer(created);
  json.key("owned_by").text("reprise");
  json.key("max_model_len").integer(longest);
  return json.end_object().take();
}

std::string models_body(std::string_view model, std::int64_t created, Position longest) {
  return fmt::format("{{\"object\":\"list\",\"data\":[{}]}}", model_body(model, created, longest));
}

std::string props_body(const Bundle& bundle, const EngineOptions& options, std::string_view model) {
  const Tokenizer& tokenizer = bundle.tokenizer();
  JsonWriter json;
  json.begin_object();
  append_default_settings(json.key("default_generation_settings"), options.context_length);
  json.key("total_slots").integer(options.sequences_max);
  json.key("model_alias").text(model);
  json.key("modalities").begin_object();
  json.key("vision").boolean(false);
  json.key("audio").boolean(false);
  json.end_object();
  json.key("n_ctx").integer(options.context_length);
  json.key("chat_template").text(bundle.chat_template_source());
  json.key("bos_token").text(special_text(tokenizer, tokenizer.bos()));
  json.key("eos_token").text(special_text(tokenizer, tokenizer.eos()));
  json.key("build_info").text("reprise " REPRISE_VERSION);
  return json.end_object().take();
}

}  // namespace reprise
