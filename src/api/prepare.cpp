// The prepare thread's work.
#include "api/prepare.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/core.h>

#include "api/cache_report.h"

namespace reprise {
namespace {

struct Parsed {
  GenerationFields fields;
  PreparedPrompt prompt;
};

ApiResult<Parsed> prepare_chat(const PrepareContext& context, std::string_view body) {
  TRY_ASSIGN(ChatRequest request, parse_chat_request(body, context.limits));
  TRY(check_model(request.fields.model, context.model_alias));
  Result<PreparedPrompt> prompt = context.bundle->prepare_chat(request.messages);
  if (!prompt) return std::unexpected(to_api_error(prompt.error()));
  return Parsed{std::move(request.fields), std::move(*prompt)};
}

ApiStatus check_ids(const std::vector<TokenId>& ids, int vocabulary) {
  for (std::size_t index = 0; index < ids.size(); index++) {
    if (ids[index] < vocabulary) continue;
    const std::string param = fmt::format("prompt[{}]", index);
    return refuse(
        400, "invalid_value",
        fmt::format("{}: got token id {}, expected 0 to {}", param, ids[index], vocabulary - 1),
        param);
  }
  return {};
}

ApiResult<Parsed> prepare_completion(const PrepareContext& context, std::string_view body) {
  TRY_ASSIGN(CompletionRequest request, parse_completion_request(body, context.limits));
  TRY(check_model(request.fields.model, context.model_alias));
  if (std::vector<TokenId>* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) {
    TRY(check_ids(*ids, context.bundle->model().config().vocabulary));
    std::vector<Position> turn_ends = context.bundle->prompts().turn_ends(*ids);
    return Parsed{std::move(request.fields), {std::move(*ids), 0, std::move(turn_ends)}};
  }
  Result<PreparedPrompt> prompt =
      context.bundle->prepare_text(std::get<std::string>(request.prompt));
  if (!prompt) return std::unexpected(to_api_error(prompt.error()));
  return Parsed{std::move(request.fields), std::move(*prompt)};
}

// The tokens that the reply may have. Nothing is cut: what does not fit is refused with its
// numbers; what the KV budget never holds, by the engine. A client that names no number gets what
// there is.
ApiResult<Position> reply_tokens(std::string_view prompt_param, Position prompt,
                                 std::optional<Position> max_tokens,
                                 const PrepareContext& context) {
  const Position context_length = context.context_length;
  if (prompt == 0) {
    return refuse(400, "invalid_value",
                  fmt::format("{}: got 0 tokens, expected at least 1", prompt_param),
                  std::string(prompt_param));
  }
  if (prompt >= context_length) {
    return refuse(
        400, "context_length_exceeded",
        fmt::format("the prompt has {} tokens, but the context length is {} tokens and the "
                    "reply needs at least 1",
                    prompt, context_length),
        std::string(prompt_param));
  }
  const Position room = context_length - prompt;
  if (max_tokens && *max_tokens > room) {
    return refuse(
        400, "context_length_exceeded",
        fmt::format("the prompt's {} tokens and max_tokens {} exceed the context length of "
                    "{} tokens",
                    prompt, *max_tokens, context_length),
        "max_tokens");
  }
  return max_tokens.value_or(std::max<Position>(context.fitting_length - prompt, 1));
}

std::uint64_t drawn_seed() {
  std::random_device device;
  const std::uint64_t high = device();
  return high << 32 | device();
}

}  // namespace

ApiResult<PreparedGeneration> prepare_generation(const PrepareContext& context, ReplyKind kind,
                                                 std::string_view body) {
  const bool is_chat = kind == ReplyKind::chat;
  TRY_ASSIGN(Parsed parsed,
             is_chat ? prepare_chat(context, body) : prepare_completion(context, body));
  PreparedGeneration prepared{std::move(parsed.fields), {}};
  GenerationFields& fields = prepared.fields;
  if (!fields.has_seed) fields.sampling.seed = drawn_seed();
  GenerationRequest& generation = prepared.generation;
  generation.prompt = std::move(parsed.prompt.ids);
  generation.history_boundary = parsed.prompt.history_boundary;
  generation.turn_ends = std::move(parsed.prompt.turn_ends);
  TRY_ASSIGN(generation.max_tokens, reply_tokens(is_chat ? "messages" : "prompt",
                                                 static_cast<Position>(generation.prompt.size()),
                                                 fields.max_tokens, context));
  generation.sampling = fields.sampling;
  generation.stop_ids = context.bundle->stop_ids();
  generation.top_logprobs = fields.top_logprobs;
  generation.scope = cache_scope(context.tenant, fields.cache_salt);
  generation.use_cache = fields.use_cache;
  generation.pin_ms = fields.cache_pin_seconds * 1000;
  generation.priority = fields.priority;
  generation.timeout_ms = fields.timeout_ms.value_or(context.request_timeout_ms);
  return prepared;
}

ApiStatus check_model(std::string_view model, std::string_view alias) {
  if (model.empty() || model == alias) return {};
  return refuse(404, "model_not_found",
                fmt::format("model: got \"{}\", expected \"{}\"", clipped(model), alias), "model");
}

ApiError to_api_error(const Error& error) {
  const auto with = [&](int status, const char* code) {
    return ApiError{status, code, error.message, error.field};
  };
  switch (error.code) {
    case Errc::invalid_argument:
      return with(400, "invalid_value");
    case Errc::unsupported:
      return with(400, "unsupported_parameter");
    // With a field: this request can never fit. Without: too many at once, later it may.
    case Errc::exhausted:
      return error.field.empty() ? with(429, "queue_full") : with(400, "context_length_exceeded");
    case Errc::cancelled:
      return with(503, "server_stopping");
    case Errc::io:
      return with(503, "engine_failed");
    case Errc::not_found:
    case Errc::corrupt:
      break;
  }
  return with(500, "internal_error");
}

}  // namespace reprise
