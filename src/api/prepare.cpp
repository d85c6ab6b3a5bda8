// The prepare threads' work.
#include "api/prepare.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/core.h>

#include "api/cache_report.h"
#include "api/grammar_constraint.h"
#include "api/prepare_tokens.h"

namespace reprise {
namespace {

// One of a request's prompts, and the field that it stands in.
struct Prompt {
  PreparedPrompt prepared;
  std::string param;
  Position max_tokens = 0;  // that its replies may have
};

// A request on its way to generations.
struct Draft {
  GenerationFields fields;
  std::vector<Prompt> prompts = {};
  bool echo = false;
  ParamNames names = {};
};

std::uint64_t drawn_seed() {
  std::random_device device;
  const std::uint64_t high = device();
  return high << 32 | device();
}

// The engine takes all choices of a request or none.
ApiStatus check_choices(const PrepareContext& context, int choices, std::size_t prompts) {
  const auto limit = static_cast<std::size_t>(context.limits.choices_max);
  const std::size_t most = std::min(limit, context.together_max);
  const std::size_t replies = prompts * static_cast<std::size_t>(choices);
  if (replies <= most) return {};
  const std::string why = most < limit ? ": so many run and wait together" : "";
  if (choices == 1) {
    return refuse(400, "invalid_value",
                  fmt::format("prompt: got {} prompts, expected at most {}{}", prompts, most, why),
                  "prompt");
  }
  const std::string of = prompts == 1 ? "" : fmt::format(" for {} prompts, {}", prompts, replies);
  return refuse(
      400, "invalid_value",
      fmt::format("n: got {}{} replies, expected at most {} in all{}", choices, of, most, why),
      "n");
}

ApiStatus check_fields(const PrepareContext& context, const GenerationFields& fields,
                       std::size_t prompts) {
  TRY(check_model(fields.model, context.model_alias));
  TRY(check_token_fields(fields, context.bundle->model().config().vocabulary));
  return check_choices(context, fields.choices, prompts);
}

// Texts that each fit can still hold up all other requests together. One alone is bounded by the
// context.
ApiStatus check_texts(const PrepareContext& context, std::span<const PromptInput> prompts) {
  if (prompts.size() < 2) return {};
  std::size_t bytes = 0;
  for (const PromptInput& prompt : prompts) {
    if (const std::string* text = std::get_if<std::string>(&prompt)) bytes += text->size();
  }
  const std::size_t most = context.limits.prompts_bytes_max;
  if (bytes <= most) return {};
  return refuse(400, "invalid_value",
                fmt::format("prompt: got {} prompts of {} bytes together, expected at most {}",
                            prompts.size(), bytes, most),
                "prompt");
}

// The tokens that the reply may have. Nothing is cut: what does not fit is refused with its
// numbers; what the KV budget never holds, by the engine. A client that names no number gets what
// there is.
ApiResult<Position> reply_tokens(const PrepareContext& context, const Draft& draft,
                                 const Prompt& prompt) {
  const Position context_length = context.context_length;
  const auto tokens = static_cast<Position>(prompt.prepared.ids.size());
  const std::optional<Position> max_tokens = draft.fields.max_tokens;
  if (tokens == 0) {
    return refuse(400, "invalid_value",
                  fmt::format("{}: got 0 tokens, expected at least 1", prompt.param), prompt.param);
  }
  if (max_tokens == 0 && !draft.echo) {
    return refuse(
        400, "invalid_value",
        fmt::format("{}: got 0, expected at least 1 (0 only with echo)", draft.names.max_tokens),
        std::string(draft.names.max_tokens));
  }
  const Position least = max_tokens == 0 ? 0 : 1;
  if (tokens + least > context_length) {
    return refuse(
        400, "context_length_exceeded",
        fmt::format("the prompt has {} tokens, but the context length is {} tokens and the "
                    "reply needs at least {}",
                    tokens, context_length, least),
        prompt.param);
  }
  if (max_tokens && *max_tokens > context_length - tokens) {
    return refuse(
        400, "context_length_exceeded",
        fmt::format("the prompt's {} tokens and {} {} exceed the context length of {} tokens",
                    tokens, draft.names.max_tokens, *max_tokens, context_length),
        std::string(draft.names.max_tokens));
  }
  const Position most = max_tokens.value_or(std::max<Position>(context.fitting_length - tokens, 1));
  if (draft.fields.min_tokens <= most) return most;
  return refuse(400, "invalid_value",
                fmt::format("min_tokens: got {}, expected at most the reply's {} tokens",
                            draft.fields.min_tokens, most),
                "min_tokens");
}

// They are kept until the reply ends.
ApiStatus check_logprobs(const PrepareContext& context, const Draft& draft) {
  const GenerationFields& fields = draft.fields;
  if (fields.top_logprobs < 0) return {};
  std::int64_t tokens = 0;
  for (const Prompt& prompt : draft.prompts) {
    const std::size_t echoed = draft.echo ? prompt.prepared.ids.size() : 0;
    tokens += fields.choices * (std::int64_t{prompt.max_tokens} + static_cast<Position>(echoed));
  }
  const std::int64_t each = std::int64_t{fields.top_logprobs} + 1;
  const std::int64_t most = context.limits.logprob_entries_max;
  if (tokens * each <= most) return {};
  return refuse(400, "invalid_value",
                fmt::format("{}: got {} tokens of all replies (max_tokens, or what fits without "
                            "it) with {} log probabilities each, {} in all, expected at most {}",
                            draft.names.logprobs, tokens, each, tokens * each, most),
                std::string(draft.names.logprobs));
}

// All but what belongs to one choice.
GenerationRequest make_generation(const PrepareContext& context, const Draft& draft,
                                  const Prompt& prompt) {
  const GenerationFields& fields = draft.fields;
  GenerationRequest generation;
  generation.prompt = prompt.prepared.ids;
  generation.history_boundary = prompt.prepared.history_boundary;
  generation.turn_ends = prompt.prepared.turn_ends;
  generation.max_tokens = prompt.max_tokens;
  generation.sampling = fields.sampling;
  EndingIds ending = ending_ids(fields, context.bundle->stop_ids());
  generation.stop_ids = std::move(ending.stops);
  generation.banned_ids = std::move(ending.banned);
  generation.min_tokens = fields.min_tokens;
  generation.top_logprobs = fields.top_logprobs;
  if (draft.echo) generation.prompt_logprobs = fields.top_logprobs;
  generation.scope = cache_scope(context.tenant, fields.cache_salt);
  generation.use_cache = fields.use_cache;
  generation.pin_ms = fields.cache_pin_seconds * 1000;
  generation.priority = fields.priority;
  generation.timeout_ms = fields.timeout_ms.value_or(context.request_timeout_ms);
  return generation;
}

ApiStatus add_prompt(const PrepareContext& context, Draft& draft, Prompt prompt) {
  TRY_ASSIGN(prompt.max_tokens, reply_tokens(context, draft, prompt));
  draft.prompts.push_back(std::move(prompt));
  return {};
}

ApiResult<PreparedGeneration> finish(const PrepareContext& context, const ReplyRules& rules,
                                     Draft draft) {
  GenerationFields& fields = draft.fields;
  TRY(check_logprobs(context, draft));
  const std::size_t replies = draft.prompts.size() * static_cast<std::size_t>(fields.choices);
  TRY_ASSIGN(auto constraints, constrain_replies(context.bundle->grammars(), rules, replies));
  if (!fields.has_seed) fields.sampling.seed = drawn_seed();
  fields.sampling = complete_sampling(fields, context.bundle->sequence_breakers());
  PreparedGeneration prepared;
  for (const Prompt& prompt : draft.prompts) {
    for (int choice = 0; choice < fields.choices; choice++) {
      GenerationRequest generation = make_generation(context, draft, prompt);
      generation.choice = static_cast<std::uint32_t>(choice);
      generation.constraint = std::move(constraints[prepared.generations.size()]);
      prepared.generations.push_back(std::move(generation));
    }
  }
  prepared.fields = std::move(fields);
  return prepared;
}

// How replies to this prompt are to be read.
ReplyReading chat_reading(const ReplyStyle& style, const Tools& tools, Thoughts thoughts,
                          bool in_content) {
  ReplyReading reading;
  reading.format = style.format;
  reading.parser.in_reasoning = thoughts == Thoughts::open;
  reading.parser.in_content = in_content;
  if (!may_call(tools)) return reading;
  reading.parser.has_tools = true;
  reading.parser.calls_are_constrained = true;
  reading.parser.has_only_calls = tools.choice == ToolChoice::required;
  for (const ToolSpec& spec : tools.specs) {
    reading.parser.tool_names.push_back(spec.name);
    reading.parser.tool_parameters.push_back(spec.parameters);
  }
  return reading;
}

ApiResult<Prompt> prepare_prompt(const PromptWriter& prompts, PromptInput input,
                                 std::string param) {
  if (std::vector<TokenId>* ids = std::get_if<std::vector<TokenId>>(&input)) {
    if (const Status known = prompts.check_ids(*ids, param); !known)
      return std::unexpected(to_api_error(known.error()));
    std::vector<Position> turn_ends = prompts.turn_ends(*ids);
    return Prompt{{.ids = std::move(*ids), .turn_ends = std::move(turn_ends)}, std::move(param)};
  }
  Result<PreparedPrompt> prepared = prompts.prepare_text(std::get<std::string>(input), param);
  if (!prepared) return std::unexpected(to_api_error(prepared.error()));
  return Prompt{std::move(*prepared), std::move(param)};
}

// The text of a prompt, in front of its replies.
ApiResult<std::string> echoed(const PromptWriter& prompts, const PromptInput& input,
                              const std::string& param) {
  if (const std::string* text = std::get_if<std::string>(&input)) return *text;
  Result<std::string> text = prompts.detokenize(std::get<std::vector<TokenId>>(input), param);
  if (!text) return std::unexpected(to_api_error(text.error()));
  return std::move(*text);
}

}  // namespace

ApiResult<PreparedGeneration> prepare_chat(const PrepareContext& context, ChatRequest request) {
  TRY(check_fields(context, request.fields, 1));
  const Bundle& bundle = *context.bundle;
  const ReplyStyle& style = bundle.reply_style();
  const ChatSettings settings = take_settings(request);
  const bool in_content = settings.end == PromptEnd::content;
  if (in_content && !calls_follow_text(style.format)) request.tools.choice = ToolChoice::none;
  Result<PreparedPrompt> prompt = bundle.prepare_chat(request.messages, settings);
  if (!prompt) {
    ApiError error = to_api_error(prompt.error());
    if (error.param == ParamNames().messages) error.param = request.names.messages;
    return std::unexpected(std::move(error));
  }
  const Thoughts thoughts = prompt->thoughts;
  const ReplyRules rules{
      .format = {.format = style.format,
                 .has_reasoning = style.has_reasoning && thoughts != Thoughts::closed,
                 .in_reasoning = thoughts == Thoughts::open,
                 .in_content = in_content,
                 .tokenizer = &bundle.tokenizer()},
      .tools = &request.tools,
      .schema = request.schema ? &*request.schema : nullptr,
      .schema_param = request.names.schema};
  Draft draft{.fields = std::move(request.fields), .names = request.names};
  TRY(add_prompt(context, draft, {std::move(*prompt), std::string(request.names.messages)}));
  TRY_ASSIGN(PreparedGeneration prepared, finish(context, rules, std::move(draft)));
  prepared.reading = chat_reading(style, request.tools, thoughts, in_content);
  return prepared;
}

ApiResult<PreparedGeneration> prepare_completion(const PrepareContext& context,
                                                 CompletionRequest request) {
  const std::size_t count = request.prompts.size();
  TRY(check_fields(context, request.fields, count));
  TRY(check_texts(context, request.prompts));
  const Bundle& bundle = *context.bundle;
  Draft draft{.fields = std::move(request.fields), .echo = request.echo, .names = request.names};
  std::vector<std::string> echoes;
  for (std::size_t index = 0; index < count; index++) {
    const std::string param = count == 1 ? "prompt" : fmt::format("prompt[{}]", index);
    PromptInput& input = request.prompts[index];
    if (request.echo) {
      TRY_ASSIGN(std::string text, echoed(bundle.prompts(), input, param));
      echoes.push_back(std::move(text));
    }
    TRY_ASSIGN(Prompt prompt, prepare_prompt(bundle.prompts(), std::move(input), param));
    TRY(add_prompt(context, draft, std::move(prompt)));
  }
  const ReplyRules rules{.format = {.tokenizer = &bundle.tokenizer()},
                         .schema = request.schema ? &*request.schema : nullptr,
                         .schema_param = request.names.schema};
  TRY_ASSIGN(PreparedGeneration prepared, finish(context, rules, std::move(draft)));
  prepared.echoes = std::move(echoes);
  return prepared;
}

ChatSettings take_settings(ChatRequest& request) {
  ChatSettings settings{.tools = request.tools.definitions,
                        .variables = std::move(request.template_variables),
                        .reasoning_effort = std::move(request.reasoning_effort)};
  if (request.continues) {
    settings.end = PromptEnd::content;
  } else if (!request.adds_generation_prompt.value_or(true)) {
    settings.end = PromptEnd::messages;
  }
  return settings;
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
