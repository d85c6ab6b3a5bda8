// The desk: who may ask what, and which thread answers.
#include "api/service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "api/bundle.h"
#include "api/cache_report.h"
#include "api/cache_tree.h"
#include "api/json_writer.h"
#include "api/live_requests.h"
#include "api/metrics.h"
#include "api/prepare.h"
#include "api/reply.h"
#include "api/retry_after.h"
#include "api/routes.h"
#include "api/task_queue.h"
#include "api/text_sink.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"

namespace reprise {
namespace {

constexpr std::size_t kUnknownNamesMax = 1000;  // that the log mentions, once each

using Clock = std::chrono::steady_clock;

std::string_view header_value(const ServiceRequest& request, std::string_view name) {
  for (const auto& [key, value] : request.headers) {
    if (key == name) return value;
  }
  return {};
}

// Member names come from the client: only plain ones are repeated in the log.
std::string loggable_name(const std::string& name) {
  const bool is_plain = name.size() <= 64 && std::ranges::all_of(name, [](char letter) {
                          return letter > ' ' && letter < 0x7F;
                        });
  return is_plain ? name : fmt::format("(a name of {} bytes)", name.size());
}

std::int64_t milliseconds_since(Clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - then).count();
}

Limits limits_of(const ServiceOptions& options) {
  Limits limits;
  limits.body_bytes_max = options.body_bytes_max;
  if (options.request_timeout_ms > 0) limits.timeout_ms_max = options.request_timeout_ms;
  return limits;
}

ApiError stopping_error() {
  return {503, "server_stopping", "the server is stopping and takes no new requests", {}};
}

std::uint64_t random_bits() {
  std::random_device device;
  const std::uint64_t high = device();
  return high << 32 | device();
}

}  // namespace

struct Service::State {
  State(const Bundle& the_bundle, Engine& the_engine, ServiceOptions the_options);
  ~State();

  // ---- I/O thread -----------------------------------------------------------------------------
  void handle(ServiceRequest request, std::shared_ptr<StreamChannel> channel);
  ApiResult<ApiKey> admit(const ServiceRequest& request) const;
  bool is_open() const;  // no keys are configured
  void answer(const Route& route, ServiceRequest request, const ApiKey& key,
              const std::shared_ptr<StreamChannel>& channel);
  void answer_preflight(const ServiceRequest& request, StreamChannel& channel);
  void answer_metrics(const ApiKey& key, StreamChannel& channel);
  void answer_health(StreamChannel& channel);
  void post_generation(Endpoint endpoint, ServiceRequest request, std::string tenant,
                       std::shared_ptr<StreamChannel> channel);
  void post_question(Endpoint endpoint, const ServiceRequest& request, const ApiKey& key,
                     std::shared_ptr<StreamChannel> channel);
  std::string models_body() const;
  std::string model_body() const;

  // ---- question thread ------------------------------------------------------------------------
  std::string tree_body(const CacheScope& scope, std::size_t most);

  // ---- prepare thread -------------------------------------------------------------------------
  void generate(Endpoint endpoint, const std::string& body, const std::string& tenant,
                Clock::time_point accepted_at, const std::shared_ptr<StreamChannel>& channel);
  ApiStatus submit(ReplyKind kind, PreparedGeneration prepared, Clock::time_point accepted_at,
                   const std::shared_ptr<StreamChannel>& channel);
  void log_unknown(const std::vector<std::string>& names);

  // ---- any thread -----------------------------------------------------------------------------
  HeaderList common_headers() const;
  void reply_json(Endpoint endpoint, StreamChannel& channel, int status, std::string body);
  void reply_error(Endpoint endpoint, StreamChannel& channel, const ApiError& error,
                   HeaderList headers = {});
  void begin_drain();

  const Bundle& bundle;
  Engine& engine;
  const ServiceOptions options;
  const Limits limits;
  const std::string fingerprint;
  const std::vector<std::string> group_names;
  mutable std::mutex keys_mutex;
  ApiKeys keys;
  const std::int64_t started_at = unix_milliseconds() / 1000;
  const std::uint64_t id_base = random_bits();
  std::atomic<std::uint64_t> last_id{0};
  std::atomic<bool> draining{false};
  std::set<std::string> unknown_names;  // prepare thread only
  Metrics metrics;
  LiveRequests live;
  std::thread drain_thread;
  TaskQueue prepare_queue;
  TaskQueue question_queue;  // what waits for a step of the engine
};

Service::State::State(const Bundle& the_bundle, Engine& the_engine, ServiceOptions the_options)
    : bundle(the_bundle),
      engine(the_engine),
      options(std::move(the_options)),
      limits(limits_of(options)),
      fingerprint(system_fingerprint(bundle.model().fingerprint())),
      group_names(span_group_names(bundle.model().config().kv_layout(engine.options().kv_type))),
      keys(options.api_keys),
      metrics(engine),
      prepare_queue(limits.waiting_bodies_max,
                    limits.waiting_full_bodies_max * limits.body_bytes_max),
      question_queue(limits.waiting_bodies_max, limits.body_bytes_max) {}

// Queued requests are told that the server stops; running ones are cancelled and told the same.
Service::State::~State() {
  draining = true;
  prepare_queue.finish();
  question_queue.finish();
  live.cancel_and_wait(engine);
  if (drain_thread.joinable()) drain_thread.join();
}

// ---- I/O thread -------------------------------------------------------------------------------

void Service::State::handle(ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
  const std::string_view path = split_target(request.target).path;
  ApiResult<Route> route = find_route(request.method, path);
  if (!route) {
    HeaderList headers;
    if (route.error().status == 405) headers.emplace_back("allow", allowed_methods(path));
    reply_error(Endpoint::none, *channel, route.error(), std::move(headers));
    return;
  }
  const ApiResult<ApiKey> key = route->needs_key ? admit(request) : ApiKey();
  if (!key) {
    reply_error(route->endpoint, *channel, key.error());
    return;
  }
  const std::string_view encoding = header_value(request, "content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    reply_error(route->endpoint, *channel,
                {415,
                 "unsupported_encoding",
                 fmt::format("content-encoding: got \"{}\", expected none", clipped(encoding)),
                 {}});
    return;
  }
  answer(*route, std::move(request), *key, channel);
}

ApiResult<ApiKey> Service::State::admit(const ServiceRequest& request) const {
  const std::lock_guard lock(keys_mutex);
  return keys.admit(header_value(request, "authorization"));
}

bool Service::State::is_open() const {
  const std::lock_guard lock(keys_mutex);
  return keys.size() == 0;
}

void Service::State::answer(const Route& route, ServiceRequest request, const ApiKey& key,
                            const std::shared_ptr<StreamChannel>& channel) {
  switch (route.endpoint) {
    case Endpoint::chat:
    case Endpoint::completions:
      post_generation(route.endpoint, std::move(request), key.name, channel);
      return;
    case Endpoint::cache_stats:
    case Endpoint::cache_tree:
    case Endpoint::cache_reset:
      post_question(route.endpoint, request, key, channel);
      return;
    case Endpoint::models:
      reply_json(route.endpoint, *channel, 200, models_body());
      return;
    case Endpoint::model:
      if (const ApiStatus known = check_model(route.argument, options.model_alias); !known) {
        reply_error(route.endpoint, *channel, known.error());
      } else {
        reply_json(route.endpoint, *channel, 200, model_body());
      }
      return;
    case Endpoint::health:
      answer_health(*channel);
      return;
    case Endpoint::metrics:
      answer_metrics(key, *channel);
      return;
    case Endpoint::preflight:
    case Endpoint::none:
      answer_preflight(request, *channel);
      return;
  }
}

// All tenants' numbers together.
void Service::State::answer_metrics(const ApiKey& key, StreamChannel& channel) {
  if (!key.is_admin) {
    reply_error(Endpoint::metrics, channel,
                {403, "admin_key_required",
                 "/metrics shows the sums over all API keys: it needs an admin key"});
    return;
  }
  metrics.count_reply(Endpoint::metrics, 200);
  ReplyHead head;
  head.content_type = "text/plain; version=0.0.4; charset=utf-8";
  head.headers = common_headers();
  send_reply(channel, std::move(head), metrics.text());
}

void Service::State::answer_preflight(const ServiceRequest& request, StreamChannel& channel) {
  metrics.count_reply(Endpoint::preflight, 204);
  ReplyHead head;
  head.status = 204;
  head.headers = common_headers();
  const std::string methods = allowed_methods(split_target(request.target).path);
  head.headers.emplace_back("allow", methods);
  if (!options.allowed_origin.empty()) {
    head.headers.emplace_back("access-control-allow-methods", methods);
    head.headers.emplace_back("access-control-allow-headers", "authorization, content-type");
    head.headers.emplace_back("access-control-max-age", "86400");
  }
  send_reply(channel, std::move(head), "");
}

void Service::State::answer_health(StreamChannel& channel) {
  const EngineStats stats = engine.stats();
  const bool has_failed = !stats.failure.empty();
  JsonWriter json;
  json.begin_object();
  json.key("status").text(has_failed ? "failed" : draining ? "stopping" : "ok");
  if (has_failed) json.key("reason").text(stats.failure);
  json.key("model").text(options.model_alias);
  if (is_open()) {  // anybody may look: not at what the keys' holders do
    json.key("running").integer(stats.running);
    json.key("waiting").integer(stats.waiting);
  }
  const int status = has_failed || draining ? 503 : 200;
  reply_json(Endpoint::health, channel, status, json.end_object().take());
}

void Service::State::post_generation(Endpoint endpoint, ServiceRequest request, std::string tenant,
                                     std::shared_ptr<StreamChannel> channel) {
  if (draining) {
    reply_error(endpoint, *channel, stopping_error());
    return;
  }
  const std::size_t bytes = request.body.size();
  auto task = [this, endpoint, body = std::move(request.body), tenant, accepted_at = Clock::now(),
               channel] { generate(endpoint, body, tenant, accepted_at, channel); };
  if (prepare_queue.post(tenant, bytes, std::move(task))) return;
  const TaskQueue::Load load = prepare_queue.load();
  reply_error(endpoint, *channel,
              {429, "queue_full",
               fmt::format("{} requests of {} bytes together wait to be read, and this one has {} "
                           "bytes: expected at most {} requests of {} bytes",
                           load.tasks, load.bytes, bytes, limits.waiting_bodies_max,
                           limits.waiting_full_bodies_max * limits.body_bytes_max)});
}

void Service::State::post_question(Endpoint endpoint, const ServiceRequest& request,
                                   const ApiKey& key, std::shared_ptr<StreamChannel> channel) {
  const std::string_view query = split_target(request.target).query;
  const ApiResult<std::optional<std::string>> cache_salt = query_value(query, "cache_salt");
  const ApiResult<std::optional<std::int64_t>> limit =
      query_integer(query, "limit", 1, limits.tree_runs_max);
  if (!cache_salt || (endpoint == Endpoint::cache_tree && !limit)) {
    reply_error(endpoint, *channel, cache_salt ? limit.error() : cache_salt.error());
    return;
  }
  const CacheScope scope = cache_scope(key.name, cache_salt->value_or(""));
  const std::int64_t runs = limit ? limit->value_or(limits.tree_runs_default) : 0;
  const auto task = [this, endpoint, scope, runs, is_admin = key.is_admin, channel] {
    if (channel->is_abandoned()) return;
    if (endpoint == Endpoint::cache_reset) {
      reply_json(endpoint, *channel, 200, format_cache_reset(engine.reset_cache(scope)));
    } else if (endpoint == Endpoint::cache_tree) {
      reply_json(endpoint, *channel, 200, tree_body(scope, static_cast<std::size_t>(runs)));
    } else {
      const PromptCacheStats own = engine.cache_stats(scope);
      const EngineStats all = engine.stats();
      reply_json(endpoint, *channel, 200,
                 format_cache_stats(engine.options(), own, is_admin ? &all : nullptr));
    }
  };
  if (question_queue.post(key.name, 0, task)) return;
  reply_error(endpoint, *channel,
              {429, "queue_full",
               fmt::format("{} questions wait for the engine, expected at most {}",
                           question_queue.load().tasks, limits.waiting_bodies_max)});
}

// One run more than wanted tells whether there are more.
std::string Service::State::tree_body(const CacheScope& scope, std::size_t most) {
  std::vector<CacheRun> runs = engine.cache_tree(scope, most + 1);
  const bool truncated = runs.size() > most;
  if (truncated) runs = engine.cache_tree(scope, most);
  return format_cache_tree(scope.tenant, runs, truncated, group_names, unix_milliseconds());
}

std::string Service::State::model_body() const {
  JsonWriter json;
  json.begin_object();
  json.key("id").text(options.model_alias);
  json.key("object").text("model");
  json.key("created").integer(started_at);
  json.key("owned_by").text("reprise");
  json.key("max_model_len").integer(engine.fitting_length());
  return json.end_object().take();
}

std::string Service::State::models_body() const {
  return fmt::format("{{\"object\":\"list\",\"data\":[{}]}}", model_body());
}

// ---- prepare thread ---------------------------------------------------------------------------

void Service::State::generate(Endpoint endpoint, const std::string& body, const std::string& tenant,
                              Clock::time_point accepted_at,
                              const std::shared_ptr<StreamChannel>& channel) {
  if (channel->is_abandoned()) return;
  if (draining) {
    reply_error(endpoint, *channel, stopping_error());
    return;
  }
  const ReplyKind kind = endpoint == Endpoint::chat ? ReplyKind::chat : ReplyKind::completion;
  const PrepareContext context{.bundle = &bundle,
                               .model_alias = options.model_alias,
                               .tenant = tenant,
                               .context_length = engine.options().context_length,
                               .fitting_length = engine.fitting_length(),
                               .limits = limits,
                               .request_timeout_ms = options.request_timeout_ms};
  ApiResult<PreparedGeneration> prepared = prepare_generation(context, kind, body);
  if (!prepared) {
    reply_error(endpoint, *channel, prepared.error());
    return;
  }
  log_unknown(prepared->fields.unknown);
  const ApiStatus submitted = submit(kind, std::move(*prepared), accepted_at, channel);
  if (!submitted) reply_error(endpoint, *channel, submitted.error());
}

ApiStatus Service::State::submit(ReplyKind kind, PreparedGeneration prepared,
                                 Clock::time_point accepted_at,
                                 const std::shared_ptr<StreamChannel>& channel) {
  GenerationRequest& generation = prepared.generation;
  GenerationFields& fields = prepared.fields;
  const std::int64_t timeout_ms = generation.timeout_ms;
  if (timeout_ms > 0) {
    const std::int64_t elapsed_ms = milliseconds_since(accepted_at);
    if (elapsed_ms >= timeout_ms) return std::unexpected(timeout_error(timeout_ms, elapsed_ms));
    generation.timeout_ms = timeout_ms - elapsed_ms;
  }
  const std::string_view prefix = kind == ReplyKind::chat ? "chatcmpl" : "cmpl";
  ReplyPlan plan;
  plan.identity = {kind, fmt::format("{}-{:016x}{:08x}", prefix, id_base, ++last_id),
                   options.model_alias, fingerprint, unix_milliseconds() / 1000};
  plan.headers = common_headers();
  plan.stop = std::move(fields.stop);
  plan.stream = fields.stream;
  plan.include_usage = fields.include_usage;
  plan.logprobs = fields.top_logprobs >= 0;
  plan.return_token_ids = fields.return_token_ids;
  if (plan.return_token_ids) plan.prompt_ids = generation.prompt;
  plan.cache_details = fields.cache_details ? CacheDetails::yes : CacheDetails::no;
  plan.accepted_at = accepted_at;
  plan.timeout_ms = timeout_ms;
  LiveRequests::Ticket ticket = live.enter();
  const std::uint64_t number = ticket.number();
  generation.sink = std::make_unique<TextSink>(bundle.tokenizer(), std::move(plan), channel,
                                               metrics, std::move(ticket));
  const Result<RequestId> id = engine.submit(std::move(generation));
  if (!id) {
    ApiError error = to_api_error(id.error());
    if (error.status == 429) error.retry_after_seconds = retry_after_seconds(engine.stats());
    return std::unexpected(std::move(error));
  }
  live.set_id(number, *id);
  channel->on_abandon([engine = &engine, id = *id] { engine->cancel(id); });
  return {};
}

void Service::State::log_unknown(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (unknown_names.size() >= kUnknownNamesMax) return;
    const std::string plain = loggable_name(name);
    if (unknown_names.insert(plain).second)
      spdlog::info("unknown request field {}: ignored", plain);
  }
}

// ---- any thread -------------------------------------------------------------------------------

HeaderList Service::State::common_headers() const {
  HeaderList headers;
  if (options.allowed_origin.empty()) return headers;
  headers.emplace_back("access-control-allow-origin", options.allowed_origin);
  headers.emplace_back("access-control-expose-headers", "x-reprise-cache, retry-after");
  if (options.allowed_origin != "*") headers.emplace_back("vary", "origin");
  return headers;
}

void Service::State::reply_json(Endpoint endpoint, StreamChannel& channel, int status,
                                std::string body) {
  metrics.count_reply(endpoint, status);
  ReplyHead head;
  head.status = status;
  head.headers = common_headers();
  send_reply(channel, std::move(head), std::move(body));
}

void Service::State::reply_error(Endpoint endpoint, StreamChannel& channel, const ApiError& error,
                                 HeaderList headers) {
  metrics.count_reply(endpoint, error.status);
  for (auto& header : common_headers()) headers.push_back(std::move(header));
  send_error(channel, error, std::move(headers));
}

void Service::State::begin_drain() {
  if (draining.exchange(true)) return;
  drain_thread = std::thread([this] { engine.drain(options.drain_timeout_ms); });
}

// ---- Service ----------------------------------------------------------------------------------

Service::Service(const Bundle& bundle, Engine& engine, ServiceOptions options)
    : state_(std::make_unique<State>(bundle, engine, std::move(options))) {}

Service::~Service() = default;

const ServiceOptions& Service::options() const {
  return state_->options;
}

void Service::handle(ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
  state_->handle(std::move(request), std::move(channel));
}

ReplyHead Service::error_reply(int status, std::string_view code, std::string_view message,
                               std::string& body) const {
  body = error_body({status, std::string(code), std::string(message), {}});
  ReplyHead head;
  head.status = status;
  head.headers = state_->common_headers();
  return head;
}

void Service::reload_keys(ApiKeys keys) {
  const std::lock_guard lock(state_->keys_mutex);
  state_->keys = std::move(keys);
}

void Service::begin_drain() {
  state_->begin_drain();
}

}  // namespace reprise
