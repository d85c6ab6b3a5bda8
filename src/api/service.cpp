// The desk: who may ask what, and which thread answers.
#include "api/service.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "api/bundle.h"
#include "api/cache_report.h"
#include "api/cache_tree.h"
#include "api/content_type.h"
#include "api/cors.h"
#include "api/generation_desk.h"
#include "api/metrics.h"
#include "api/openapi.h"
#include "api/prepare.h"
#include "api/refusal_log.h"
#include "api/reply_sender.h"
#include "api/responses.h"
#include "api/retry_after.h"
#include "api/routes.h"
#include "api/server_answers.h"
#include "api/task_queue.h"
#include "base/clock.h"
#include "engine/engine.h"

namespace reprise {
namespace {

std::string_view header_value(const ServiceRequest& request, std::string_view name) {
  for (const auto& [key, value] : request.headers) {
    if (key == name) return value;
  }
  return {};
}

Limits limits_of(const ServiceOptions& options) {
  Limits limits;
  limits.body_bytes_max = options.body_bytes_max;
  if (options.request_timeout_ms > 0) limits.timeout_ms_max = options.request_timeout_ms;
  return limits;
}

ApiStatus check_body_headers(const Route& route, const ServiceRequest& request) {
  const std::string_view encoding = header_value(request, "content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return refuse(415, "unsupported_encoding",
                  fmt::format("content-encoding: got \"{}\", expected none", clipped(encoding)));
  }
  const std::string_view type = header_value(request, "content-type");
  if (route.has_body && !is_json_content_type(type)) {
    return refuse(
        415, "unsupported_media_type",
        fmt::format("content-type: got \"{}\", expected application/json", clipped(type)));
  }
  return {};
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
  void answer_health(Endpoint endpoint, StreamChannel& channel);
  ApiResult<std::string> kept_response(const Route& route, const ServiceRequest& request,
                                       const ApiKey& key);
  ApiResult<std::string> model_answer(const std::string& id) const;
  void post_question(Endpoint endpoint, const ServiceRequest& request, const ApiKey& key,
                     std::shared_ptr<StreamChannel> channel);

  // ---- question thread ------------------------------------------------------------------------
  std::string cache_answer(Endpoint endpoint, const CacheScope& scope, std::size_t runs,
                           bool is_admin);
  std::string tree_body(const CacheScope& scope, std::size_t most);

  // ---- any thread -----------------------------------------------------------------------------
  void begin_drain();

  const Bundle& bundle;
  Engine& engine;
  const ServiceOptions options;
  const Limits limits;
  const std::vector<std::string> group_names;
  const std::string openapi;  // the document
  mutable std::mutex keys_mutex;
  ApiKeys keys;
  const std::int64_t started_at = unix_milliseconds() / 1000;
  std::atomic<bool> is_stopping{false};
  Metrics metrics;
  const ReplySender sender;
  ResponsesStore responses;
  GenerationDesk generation;
  std::thread drain_thread;
  TaskQueue question_queue;  // what waits for a step of the engine
};

Service::State::State(const Bundle& the_bundle, Engine& the_engine, ServiceOptions the_options)
    : bundle(the_bundle),
      engine(the_engine),
      options(std::move(the_options)),
      limits(limits_of(options)),
      group_names(span_group_names(bundle.model().config().kv_layout(engine.options().kv_type))),
      openapi(openapi_document(route_descriptions(), limits, REPRISE_VERSION)),
      keys(options.api_keys),
      metrics(engine),
      sender(options.allowed_origin, metrics),
      responses(limits),
      generation({bundle, engine, options, limits, sender, metrics, responses, is_stopping}),
      question_queue(limits.waiting_bodies_max, limits.body_bytes_max) {}

// Queued requests are told that the server stops; running ones are cancelled and told the same.
Service::State::~State() {
  is_stopping = true;
  generation.finish();
  question_queue.finish();
  if (drain_thread.joinable()) drain_thread.join();
}

// ---- I/O thread -------------------------------------------------------------------------------

void Service::State::handle(ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
  const std::string_view path = split_target(request.target).path;
  if (const ApiStatus origin = check_origin(request.headers, options.allowed_origin); !origin) {
    sender.send_unrouted(request.method, path, *channel, origin.error());
    return;
  }
  const ApiResult<Route> route = find_route(request.method, path);
  if (!route) {
    HeaderList headers;
    if (route.error().status == 405) headers.emplace_back("allow", allowed_methods(path));
    sender.send_unrouted(request.method, path, *channel, route.error(), std::move(headers));
    return;
  }
  const ApiResult<ApiKey> key = route->needs_key ? admit(request) : ApiKey();
  if (!key) {
    sender.send_error(route->endpoint, *channel, key.error(), request.method);
    return;
  }
  if (const ApiStatus readable = check_body_headers(*route, request); !readable) {
    sender.send_error(route->endpoint, *channel, readable.error(), request.method);
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
  const Endpoint endpoint = route.endpoint;
  switch (endpoint) {
    case Endpoint::chat:
    case Endpoint::completions:
    case Endpoint::llama_completion:
    case Endpoint::responses:
    case Endpoint::response_tokens:
    case Endpoint::tokenize:
    case Endpoint::detokenize:
    case Endpoint::apply_template:
      return generation.post(endpoint, std::move(request.body), key, channel);
    case Endpoint::cache_stats:
    case Endpoint::cache_tree:
    case Endpoint::cache_reset:
      return post_question(endpoint, request, key, channel);
    case Endpoint::response:
    case Endpoint::response_items:
      return sender.send(endpoint, *channel, kept_response(route, request, key), request.method);
    case Endpoint::root:
      return sender.send_json(endpoint, *channel, 200, root_body());
    case Endpoint::models:
      return sender.send_json(
          endpoint, *channel, 200,
          models_body(options.model_alias, started_at, engine.fitting_length()));
    case Endpoint::model:
      return sender.send(endpoint, *channel, model_answer(route.argument));
    case Endpoint::health:
    case Endpoint::ready:
      return answer_health(endpoint, *channel);
    case Endpoint::props:
      return sender.send_json(endpoint, *channel, 200,
                              props_body(bundle, engine.options(), options.model_alias));
    case Endpoint::openapi:
      return sender.send_json(endpoint, *channel, 200, openapi);
    case Endpoint::metrics:
      return answer_metrics(key, *channel);
    case Endpoint::preflight:
    case Endpoint::none:
      return answer_preflight(request, *channel);
  }
}

// All tenants' numbers together.
void Service::State::answer_metrics(const ApiKey& key, StreamChannel& channel) {
  if (!key.is_admin) {
    sender.send_error(Endpoint::metrics, channel,
                      {403, "admin_key_required",
                       "/metrics shows the sums over all API keys: it needs an admin key"});
    return;
  }
  sender.send_text(Endpoint::metrics, channel, "text/plain; version=0.0.4; charset=utf-8",
                   metrics.text());
}

void Service::State::answer_preflight(const ServiceRequest& request, StreamChannel& channel) {
  metrics.count_reply(Endpoint::preflight, 204);
  ReplyHead head;
  head.status = 204;
  head.headers = sender.common_headers();
  const std::string methods = allowed_methods(split_target(request.target).path);
  head.headers.emplace_back("allow", methods);
  if (!options.allowed_origin.empty()) {
    head.headers.emplace_back("access-control-allow-methods", methods);
    head.headers.emplace_back(
        "access-control-allow-headers",
        allowed_headers(header_value(request, "access-control-request-headers")));
    head.headers.emplace_back("access-control-max-age", "86400");
  }
  send_reply(channel, std::move(head), "");
}

// The counts say what the keys' holders do: only without keys may anybody look.
void Service::State::answer_health(Endpoint endpoint, StreamChannel& channel) {
  ServerHealth health = server_health(engine.stats(), options.model_alias, is_stopping, is_open());
  sender.send_json(endpoint, channel, health.status, std::move(health.body));
}

ApiResult<std::string> Service::State::model_answer(const std::string& id) const {
  TRY(check_model(id, options.model_alias));
  return model_body(options.model_alias, started_at, engine.fitting_length());
}

ApiResult<std::string> Service::State::kept_response(const Route& route,
                                                     const ServiceRequest& request,
                                                     const ApiKey& key) {
  const std::string_view query = split_target(request.target).query;
  if (route.endpoint == Endpoint::response_items)
    return input_items_body(responses, key.name, route.argument, query);
  if (request.method == "DELETE") return delete_response(responses, key.name, route.argument);
  return response_body(responses, key.name, route.argument, query);
}

void Service::State::post_question(Endpoint endpoint, const ServiceRequest& request,
                                   const ApiKey& key, std::shared_ptr<StreamChannel> channel) {
  const std::string_view query = split_target(request.target).query;
  const ApiResult<std::optional<std::string>> cache_salt = query_value(query, "cache_salt");
  const ApiResult<std::optional<std::int64_t>> limit =
      query_integer(query, "limit", 1, limits.tree_runs_max);
  if (!cache_salt || (endpoint == Endpoint::cache_tree && !limit)) {
    sender.send_error(endpoint, *channel, cache_salt ? limit.error() : cache_salt.error());
    return;
  }
  const CacheScope scope = cache_scope(key.name, cache_salt->value_or(""));
  const std::int64_t runs = limit ? limit->value_or(limits.tree_runs_default) : 0;
  const auto task = [this, endpoint, scope, runs, is_admin = key.is_admin, channel] {
    if (channel->is_abandoned()) return;
    sender.send_json(endpoint, *channel, 200,
                     cache_answer(endpoint, scope, static_cast<std::size_t>(runs), is_admin));
  };
  if (question_queue.post(key.name, 0, task)) return;
  ApiError error{429, "queue_full",
                 fmt::format("{} questions wait for the engine, expected at most {}",
                             question_queue.load().tasks, limits.waiting_bodies_max)};
  error.retry_after_seconds = retry_after_seconds(engine.stats());
  sender.send_error(endpoint, *channel, error);
}

std::string Service::State::cache_answer(Endpoint endpoint, const CacheScope& scope,
                                         std::size_t runs, bool is_admin) {
  if (endpoint == Endpoint::cache_reset) return format_cache_reset(engine.reset_cache(scope));
  if (endpoint == Endpoint::cache_tree) return tree_body(scope, runs);
  const PromptCacheStats own = engine.cache_stats(scope);
  const EngineStats all = engine.stats();
  return format_cache_stats(engine.options(), own, is_admin ? &all : nullptr);
}

// One run more than wanted tells whether there are more.
std::string Service::State::tree_body(const CacheScope& scope, std::size_t most) {
  std::vector<CacheRun> runs = engine.cache_tree(scope, most + 1);
  const bool truncated = runs.size() > most;
  if (truncated) runs = engine.cache_tree(scope, most);
  return format_cache_tree(scope.tenant, runs, truncated, group_names, unix_milliseconds());
}

// ---- any thread -------------------------------------------------------------------------------

void Service::State::begin_drain() {
  if (is_stopping.exchange(true)) return;
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
  log_refusal(status, code);
  body = error_body({status, std::string(code), std::string(message), {}});
  ReplyHead head;
  head.status = status;
  head.headers = state_->sender.common_headers();
  if (status == 503) {  // too much at once
    head.headers.emplace_back("retry-after",
                              fmt::format("{}", retry_after_seconds(state_->engine.stats())));
  }
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
