// The response object as JSON.
#include "api/responses_object.h"

#include <algorithm>

#include <fmt/core.h>

#include "api/json_writer.h"

namespace reprise {
namespace {

std::string_view status_name(ResponseStatus status) {
  switch (status) {
    case ResponseStatus::in_progress:
      return "in_progress";
    case ResponseStatus::completed:
      return "completed";
    case ResponseStatus::incomplete:
      return "incomplete";
    case ResponseStatus::failed:
      return "failed";
  }
  return "";
}

void append_optional(JsonWriter& json, std::string_view name, const std::string* text) {
  json.key(name);
  if (text) {
    json.text(*text);
  } else {
    json.null();
  }
}

const std::string* text_or_null(const std::string& text) {
  return text.empty() ? nullptr : &text;
}

const std::string* text_or_null(const std::optional<std::string>& text) {
  return text ? &*text : nullptr;
}

// OpenAI's clients know few codes.
std::string_view error_code(const ApiError& error) {
  if (error.status == 429) return "rate_limit_exceeded";
  return error.status == 400 ? "invalid_prompt" : "server_error";
}

// There is no member for the field at fault: the message names it.
std::string error_message(const ApiError& error) {
  if (error.param.empty() || error.message.find(error.param) != std::string::npos)
    return error.message;
  return fmt::format("{}: {}", error.param, error.message);
}

void append_error(JsonWriter& json, const ApiError* error) {
  json.key("error");
  if (!error) {
    json.null();
    return;
  }
  json.begin_object();
  json.key("code").text(error_code(*error));
  json.key("message").text(error_message(*error));
  json.end_object();
}

void append_usage(JsonWriter& json, const ResponsePlan& plan, const ResponseProgress& progress) {
  json.key("usage");
  if (!progress.usage) {
    json.null();
    return;
  }
  const Usage& usage = *progress.usage;
  json.begin_object();
  json.key("input_tokens").integer(usage.prompt_tokens);
  json.key("input_tokens_details").begin_object();
  json.key("cached_tokens").integer(usage.cached_tokens);
  json.key("cache_write_tokens")
      .integer(plan.use_cache ? usage.prompt_tokens - usage.cached_tokens : 0);
  if (plan.cache_details == CacheDetails::yes) append_cache_details(json, usage);
  json.end_object();
  json.key("output_tokens").integer(usage.completion_tokens);
  json.key("output_tokens_details").begin_object();
  json.key("reasoning_tokens").integer(progress.reasoning_tokens);
  json.end_object();
  json.key("total_tokens").integer(usage.prompt_tokens + usage.completion_tokens);
  json.end_object();
}

void append_output(JsonWriter& json, std::span<const ResponseItem> output) {
  json.key("output").begin_array();
  for (const ResponseItem& item : output) append_response_item(json, item);
  json.end_array();
}

// What the request said, and what holds where it said nothing.
void append_request(JsonWriter& json, const ResponsePlan& plan) {
  const ResponseExtras& extras = plan.extras;
  json.key("parallel_tool_calls").boolean(plan.parallel_tool_calls);
  append_optional(json, "previous_response_id", text_or_null(extras.previous_response_id));
  append_optional(json, "prompt_cache_key", text_or_null(extras.prompt_cache_key));
  json.key("reasoning").begin_object();
  append_optional(json, "effort", text_or_null(plan.reasoning_effort));
  json.key("summary").null();
  json.end_object();
  append_optional(json, "safety_identifier", text_or_null(extras.safety_identifier));
  json.key("service_tier").text("default");
  json.key("store").boolean(extras.store);
  json.key("temperature").number(plan.temperature);
  json.key("text").raw(extras.text_json);
  json.key("tool_choice").raw(extras.tool_choice_json);
  json.key("tools").raw(extras.tools.shown_json);
  json.key("top_logprobs").integer(std::max(plan.top_logprobs, 0));
  json.key("top_p").number(plan.top_p);
  json.key("truncation").text("disabled");
}

}  // namespace

std::string ResponseObject::write(const ResponsePlan& plan,
                                  const ResponseProgress& progress) const {
  JsonWriter json;
  json.begin_object();
  json.key("id").text(id_);
  json.key("object").text("response");
  json.key("created_at").integer(created_at_);
  json.key("status").text(status_name(progress.status));
  json.key("background").boolean(false);
  json.key("completed_at");
  if (progress.status == ResponseStatus::completed) {
    json.integer(progress.completed_at);
  } else {
    json.null();
  }
  append_error(json, progress.error);
  json.key("incomplete_details");
  if (progress.status == ResponseStatus::incomplete) {
    json.raw(R"({"reason":"max_output_tokens"})");
  } else {
    json.null();
  }
  append_optional(json, "instructions", text_or_null(plan.extras.instructions));
  json.key("max_output_tokens");
  if (plan.max_output_tokens) {
    json.integer(*plan.max_output_tokens);
  } else {
    json.null();
  }
  json.key("max_tool_calls").null();
  json.key("model").text(model_);
  append_output(json, progress.output);
  append_request(json, plan);
  append_usage(json, plan, progress);
  append_optional(json, "user", text_or_null(plan.extras.user));
  json.key("metadata").raw(plan.extras.metadata_json);
  return json.end_object().take();
}

}  // namespace reprise
