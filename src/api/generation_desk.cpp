// Queues, prepare, submit.
#include "api/generation_desk.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "api/bundle.h"
#include "api/choice_sink.h"
#include "api/ignored_fields.h"
#include "api/live_requests.h"
#include "api/llama_format.h"
#include "api/prepare.h"
#include "api/reply_group.h"
#include "api/reply_writers.h"
#include "api/responses.h"
#include "api/retry_after.h"
#include "api/service.h"
#include "api/task_queue.h"
#include "api/text_answers.h"
#include "base/clock.h"
#include "engine/engine.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t milliseconds_since(Clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - then).count();
}

ApiError stopping_error() {
  return {503, "server_stopping", "the server is stopping and takes no new requests", {}};
}

// Of a reply's id: drawn, so that nobody can count others' requests or guess at their replies.
std::string random_digits() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}", device(), device(), device());
}

// Whether a body may ask for a grammar: their compilation can take a second, the first one waits
// for the vocabulary. Names inside texts are spelled \"tools\", with a backslash before the quote.
// A wrong guess costs nothing: both queues do the same.
bool may_need_grammar(std::string_view body) {
  constexpr std::array<std::string_view, 4> kNames = {"\"tools\"", "\"response_format\"",
                                                      "\"json_schema\"", "\"format\""};
  return std::ranges::any_of(
      kNames, [&](std::string_view name) { return body.find(name) != std::string_view::npos; });
}

// A request on its way.
struct Job {
  Endpoint endpoint = Endpoint::none;
  std::string body;
  std::string tenant;
  Clock::time_point accepted_at;
  std::shared_ptr<StreamChannel> channel;
};

}  // namespace

struct GenerationDesk::State {
  explicit State(const DeskContext& the_context)
      : context(the_context),
        fingerprint(
            system_fingerprint(context.bundle.fingerprint(context.engine.options().kv_type))),
        ignored(context.limits),
        live(context.engine),
        queue(context.limits.waiting_bodies_max, bytes_max()),
        grammar_queue(context.limits.waiting_bodies_max, bytes_max()) {}

  std::size_t bytes_max() const {
    return context.limits.waiting_full_bodies_max * context.limits.body_bytes_max;
  }

  // ---- prepare threads ------------------------------------------------------------------------
  void answer(const Job& job);
  ApiStatus start_chat(const Job& job);
  ApiStatus start_completion(const Job& job);
  ApiStatus start_response(const Job& job);
  ApiStatus submit(const Job& job, PreparedGeneration prepared, std::string id, std::size_t prompts,
                   std::unique_ptr<ReplyWriter> writer);

  PrepareContext prepare_context(const Job& job) const;
  ReplyPlan reply_plan(const PreparedGeneration& prepared, std::string_view prefix);
  ReplyOutlet outlet(const Job& job, const GenerationFields& fields) const {
    HeaderList headers = context.sender.common_headers();
    for (auto& header : ignored_header(fields.unknown)) headers.push_back(std::move(header));
    return {job.channel, std::move(headers), context.metrics, job.endpoint};
  }

  const DeskContext context;
  const std::string fingerprint;
  IgnoredFields ignored;
  LiveRequests live;
  // Last: their threads use the others. Requests with grammars have a thread of their own, so that
  // plain ones do not wait for a schema.
  TaskQueue queue, grammar_queue;
};

void GenerationDesk::State::answer(const Job& job) {
  if (job.channel->is_abandoned()) return;
  const auto send = [&](ApiResult<std::string> body) {
    context.sender.send(job.endpoint, *job.channel, std::move(body));
  };
  const auto send_text = [&](ApiResult<TextAnswer> text) {
    if (!text) return send(std::unexpected(text.error()));
    ignored.log(job.endpoint, text->unknown);
    context.sender.send_json(job.endpoint, *job.channel, 200, std::move(text->body),
                             ignored_header(text->unknown));
  };
  switch (job.endpoint) {
    case Endpoint::tokenize:
      return send_text(tokenize_body(prepare_context(job), job.body));
    case Endpoint::detokenize:
      return send_text(detokenize_body(prepare_context(job), job.body));
    case Endpoint::response_tokens:
      return send_text(response_tokens_body(prepare_context(job), job.body, context.responses));
    case Endpoint::apply_template:
      return send_text(apply_template_body(prepare_context(job), job.body));
    default:
      break;
  }
  if (context.is_stopping) return send(std::unexpected(stopping_error()));
  const ApiStatus started = job.endpoint == Endpoint::chat        ? start_chat(job)
                            : job.endpoint == Endpoint::responses ? start_response(job)
                                                                  : start_completion(job);
  if (!started) send(std::unexpected(started.error()));
}

PrepareContext GenerationDesk::State::prepare_context(const Job& job) const {
  const EngineOptions& engine = context.engine.options();
  return {.bundle = &context.bundle,
          .model_alias = context.options.model_alias,
          .tenant = job.tenant,
          .context_length = engine.context_length,
          .fitting_length = context.engine.fitting_length(),
          .limits = context.limits,
          .request_timeout_ms = context.options.request_timeout_ms,
          .together_max = static_cast<std::size_t>(engine.sequences_max) + engine.queue_max};
}

ApiStatus GenerationDesk::State::start_chat(const Job& job) {
  TRY_ASSIGN(ChatRequest request, parse_chat_request(job.body, context.limits));
  TRY_ASSIGN(PreparedGeneration prepared, prepare_chat(prepare_context(job), std::move(request)));
  ReplyPlan plan = reply_plan(prepared, "chatcmpl");
  std::string id = plan.identity.id;
  const auto make = prepared.fields.stream ? make_chat_stream : make_chat_whole;
  std::unique_ptr<ReplyWriter> writer =
      make(std::move(plan), outlet(job, prepared.fields), context.bundle.tokenizer());
  return submit(job, std::move(prepared), std::move(id), 1, std::move(writer));
}

ApiStatus GenerationDesk::State::start_completion(const Job& job) {
  const bool is_llama = job.endpoint == Endpoint::llama_completion;
  TRY_ASSIGN(CompletionRequest request,
             is_llama ? parse_llama_completion_request(job.body, context.limits)
                      : parse_completion_request(job.body, context.limits));
  TRY_ASSIGN(PreparedGeneration prepared,
             prepare_completion(prepare_context(job), std::move(request)));
  ReplyPlan plan = reply_plan(prepared, "cmpl");
  plan.echoes = prepared.echoes;
  if (is_llama) {
    plan.generation_settings =
        llama_settings(prepared.fields, prepared.generations.front().max_tokens);
  }
  std::string id = plan.identity.id;
  const std::size_t prompts = plan.prompts;
  const bool stream = prepared.fields.stream;
  const auto make = is_llama ? (stream ? make_llama_stream : make_llama_whole)
                             : (stream ? make_completion_stream : make_completion_whole);
  std::unique_ptr<ReplyWriter> writer =
      make(std::move(plan), outlet(job, prepared.fields), context.bundle.tokenizer());
  return submit(job, std::move(prepared), std::move(id), prompts, std::move(writer));
}

ApiStatus GenerationDesk::State::start_response(const Job& job) {
  TRY_ASSIGN(PreparedResponse prepared,
             prepare_response(prepare_context(job), job.body, context.responses));
  ResponseIdentity identity{random_digits(), context.options.model_alias,
                            unix_milliseconds() / 1000};
  std::string id = "resp_" + identity.digits;
  std::unique_ptr<ReplyWriter> writer = make_response_writer(
      std::move(prepared.plan), std::move(identity), context.bundle.tokenizer(), context.responses,
      outlet(job, prepared.generation.fields));
  return submit(job, std::move(prepared.generation), std::move(id), 1, std::move(writer));
}

ReplyPlan GenerationDesk::State::reply_plan(const PreparedGeneration& prepared,
                                            std::string_view prefix) {
  const GenerationFields& fields = prepared.fields;
  ReplyPlan plan;
  plan.identity = {fmt::format("{}-{}", prefix, random_digits()), context.options.model_alias,
                   fingerprint, unix_milliseconds() / 1000};
  plan.choices = static_cast<std::size_t>(fields.choices);
  plan.prompts = prepared.generations.size() / plan.choices;
  plan.include_usage = fields.include_usage;
  plan.cache_details = fields.cache_details ? CacheDetails::yes : CacheDetails::no;
  plan.logprobs = fields.top_logprobs >= 0;
  plan.return_token_ids = fields.return_token_ids;
  if (plan.return_token_ids || (plan.logprobs && !prepared.echoes.empty())) {
    for (std::size_t prompt = 0; prompt < plan.prompts; prompt++) {
      plan.prompt_ids.push_back(prepared.generations[prompt * plan.choices].prompt);
    }
  }
  return plan;
}

ApiStatus GenerationDesk::State::submit(const Job& job, PreparedGeneration prepared, std::string id,
                                        std::size_t prompts, std::unique_ptr<ReplyWriter> writer) {
  const GenerationFields& fields = prepared.fields;
  std::vector<GenerationRequest>& generations = prepared.generations;
  ignored.log(job.endpoint, fields.unknown);
  ignored.log_tools(fields.tools_left_out);
  const std::int64_t timeout_ms = generations.front().timeout_ms;
  const std::int64_t elapsed_ms = milliseconds_since(job.accepted_at);
  if (timeout_ms > 0 && elapsed_ms >= timeout_ms)
    return std::unexpected(timeout_error(timeout_ms, elapsed_ms));

  LiveRequests::Entered entered = live.enter(generations.size());
  GroupPlan plan{.id = std::move(id),
                 .prompts = prompts,
                 .choices = generations.size() / prompts,
                 .progress = fields.stream && fields.return_progress,
                 .accepted_at = job.accepted_at,
                 .timeout_ms = timeout_ms};
  ReplyGroup& group = live.keep(
      entered.number, std::make_unique<ReplyGroup>(std::move(plan), std::move(writer), job.channel,
                                                   context.metrics, live, entered.number));
  for (std::size_t choice = 0; choice < generations.size(); choice++) {
    ChoicePlan choice_plan{.choice = choice,
                           .stop = fields.stop,
                           .format = prepared.reading.format,
                           .parser = prepared.reading.parser,
                           .logprobs = fields.top_logprobs >= 0,
                           .return_token_ids = fields.return_token_ids};
    generations[choice].sink =
        std::make_unique<ChoiceSink>(context.bundle.tokenizer(), std::move(choice_plan), group,
                                     std::move(entered.tickets[choice]));
    if (timeout_ms > 0) generations[choice].timeout_ms = timeout_ms - elapsed_ms;
  }
  Result<std::vector<RequestId>> ids = context.engine.submit_all(std::move(generations));
  if (!ids) {
    ApiError error = to_api_error(ids.error());
    if (error.status == 429)
      error.retry_after_seconds = retry_after_seconds(context.engine.stats());
    return std::unexpected(std::move(error));
  }
  live.set_ids(entered.number, *ids);
  job.channel->on_abandon([engine = &context.engine, ids = std::move(*ids)] {
    for (const RequestId each : ids) engine->cancel(each);
  });
  return {};
}

GenerationDesk::GenerationDesk(const DeskContext& context)
    : state_(std::make_unique<State>(context)) {}

GenerationDesk::~GenerationDesk() = default;

void GenerationDesk::post(Endpoint endpoint, std::string body, const ApiKey& key,
                          std::shared_ptr<StreamChannel> channel) {
  State& state = *state_;
  const DeskContext& context = state.context;
  if (context.is_stopping) {
    context.sender.send_error(endpoint, *channel, stopping_error());
    return;
  }
  const std::size_t bytes = body.size();
  TaskQueue& queue = may_need_grammar(body) ? state.grammar_queue : state.queue;
  auto task = [&state, job = Job{endpoint, std::move(body), key.name, Clock::now(), channel}] {
    state.answer(job);
  };
  if (queue.post(key.name, bytes, std::move(task))) return;
  const TaskQueue::Load load = queue.load();
  const Limits& limits = context.limits;
  ApiError error{
      429, "queue_full",
      fmt::format("{} requests of {} bytes together wait to be read, and this one has {} "
                  "bytes: expected at most {} requests of {} bytes",
                  load.tasks, load.bytes, bytes, limits.waiting_bodies_max, state.bytes_max())};
  error.retry_after_seconds = retry_after_seconds(context.engine.stats());
  context.sender.send_error(endpoint, *channel, error);
}

void GenerationDesk::finish() {
  state_->queue.finish();
  state_->grammar_queue.finish();
  state_->live.cancel_and_wait();
}

}  // namespace reprise
