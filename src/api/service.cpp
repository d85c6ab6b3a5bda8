// The desk: who may ask what, and which thread answers.
#include "api/service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "api/api_keys.h"
#include "api/bundle.h"
#include "api/cache_report.h"
#include "api/json_writer.h"
#include "api/live_requests.h"
#include "api/metrics.h"
#include "api/prepare.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/task_queue.h"
#include "api/text_sink.h"
#include "base/log.h"
#include "engine/engine.h"

namespace reprise {
namespace {

constexpr std::size_t kTasksMax = 256;          // prepared one after the other
constexpr std::size_t kBodiesMax = 4;           // of the largest size, waiting to be prepared
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

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
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
  void answer(const Route& route, ServiceRequest request, std::string api_key,
              const std::shared_ptr<StreamChannel>& channel);
  void post_generation(Endpoint endpoint, ServiceRequest request, std::string api_key,
                       std::shared_ptr<StreamChannel> channel);
  void post_question(Endpoint endpoint, const ServiceRequest& request, const std::string& api_key,
                     std::shared_ptr<StreamChannel> channel);
  std::string models_body() const;
  std::string model_body() const;
  std::string health_body() const;

  // ---- prepare thread -------------------------------------------------------------------------
  void generate(Endpoint endpoint, const std::string& body, const std::string& api_key,
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
  const std::string fingerprint;
  const ApiKeys keys;
  const std::int64_t started_at = unix_seconds();
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
      fingerprint(system_fingerprint(bundle.model().fingerprint())),
      keys(options.api_keys),
      metrics(engine),
      prepare_queue(kTasksMax, kBodiesMax * options.body_bytes_max),
      question_queue(kTasksMax, options.body_bytes_max) {}

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
  std::string api_key;
  if (route->needs_key) {
    ApiResult<std::string> key = keys.admit(header_value(request, "authorization"));
    if (!key) {
      reply_error(route->endpoint, *channel, key.error());
      return;
    }
    api_key = std::move(*key);
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
  answer(*route, std::move(request), std::move(api_key), channel);
}

void Service::State::answer(const Route& route, ServiceRequest request, std::string api_key,
                            const std::shared_ptr<StreamChannel>& channel) {
  switch (route.endpoint) {
    case Endpoint::chat:
    case Endpoint::completions:
      post_generation(route.endpoint, std::move(request), std::move(api_key), channel);
      return;
    case Endpoint::cache_stats:
    case Endpoint::cache_reset:
      post_question(route.endpoint, request, api_key, channel);
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
      reply_json(route.endpoint, *channel, draining ? 503 : 200, health_body());
      return;
    case Endpoint::metrics: {
      metrics.count_reply(route.endpoint, 200);
      ReplyHead head;
      head.content_type = "text/plain; version=0.0.4; charset=utf-8";
      head.headers = common_headers();
      send_reply(*channel, std::move(head), metrics.text());
      return;
    }
    case Endpoint::preflight:
    case Endpoint::none:
      break;
  }
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
  send_reply(*channel, std::move(head), "");
}

void Service::State::post_generation(Endpoint endpoint, ServiceRequest request, std::string api_key,
                                     std::shared_ptr<StreamChannel> channel) {
  const std::size_t bytes = request.body.size();
  auto task = [this, endpoint, body = std::move(request.body), key = std::move(api_key),
               accepted_at = Clock::now(),
               channel] { generate(endpoint, body, key, accepted_at, channel); };
  if (prepare_queue.post(bytes, std::move(task))) return;
  reply_error(endpoint, *channel,
              {503,
               "overloaded",
               fmt::format("too many requests wait to be read, expected at most {} of at most {} "
                           "bytes together",
                           kTasksMax, kBodiesMax * options.body_bytes_max),
               {}});
}

void Service::State::post_question(Endpoint endpoint, const ServiceRequest& request,
                                   const std::string& api_key,
                                   std::shared_ptr<StreamChannel> channel) {
  const ApiResult<std::optional<std::string>> cache_salt =
      query_value(split_target(request.target).query, "cache_salt");
  if (!cache_salt) {
    reply_error(endpoint, *channel, cache_salt.error());
    return;
  }
  const std::string salt = tenant_salt(api_key, cache_salt->value_or(""));
  const auto task = [this, endpoint, salt, channel] {
    if (channel->is_abandoned()) return;
    if (endpoint == Endpoint::cache_reset) {
      reply_json(endpoint, *channel, 200, format_cache_reset(engine.reset_cache(salt)));
    } else {
      const PromptCacheStats own = engine.cache_stats(salt);
      reply_json(endpoint, *channel, 200,
                 format_cache_stats(engine.options(), own, engine.stats()));
    }
  };
  if (question_queue.post(0, task)) return;
  reply_error(
      endpoint, *channel,
      {503, "overloaded", fmt::format("{} questions wait for the engine already", kTasksMax), {}});
}

std::string Service::State::model_body() const {
  JsonWriter json;
  json.begin_object();
  json.key("id").text(options.model_alias);
  json.key("object").text("model");
  json.key("created").integer(started_at);
  json.key("owned_by").text("reprise");
  json.key("max_model_len").integer(engine.options().context_length);
  return json.end_object().take();
}

std::string Service::State::models_body() const {
  return fmt::format("{{\"object\":\"list\",\"data\":[{}]}}", model_body());
}

std::string Service::State::health_body() const {
  const EngineStats stats = engine.stats();
  JsonWriter json;
  json.begin_object();
  json.key("status").text(draining ? "stopping" : "ok");
  json.key("model").text(options.model_alias);
  json.key("running").integer(stats.running);
  json.key("waiting").integer(stats.waiting);
  return json.end_object().take();
}

// ---- prepare thread ---------------------------------------------------------------------------

void Service::State::generate(Endpoint endpoint, const std::string& body,
                              const std::string& api_key, Clock::time_point accepted_at,
                              const std::shared_ptr<StreamChannel>& channel) {
  if (channel->is_abandoned()) return;
  if (draining) {
    reply_error(endpoint, *channel,
                {503, "server_stopping", "the server is stopping and takes no new requests", {}});
    return;
  }
  const ReplyKind kind = endpoint == Endpoint::chat ? ReplyKind::chat : ReplyKind::completion;
  PrepareContext context{
      &bundle, options.model_alias, api_key, engine.options().context_length, {}};
  context.json.bytes_max = options.body_bytes_max;
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
  const std::string_view prefix = kind == ReplyKind::chat ? "chatcmpl" : "cmpl";
  ReplyPlan plan;
  plan.identity = {kind, fmt::format("{}-{:016x}{:08x}", prefix, id_base, ++last_id),
                   options.model_alias, fingerprint, unix_seconds()};
  plan.headers = common_headers();
  plan.stop = std::move(fields.stop);
  plan.stream = fields.stream;
  plan.include_usage = fields.include_usage;
  plan.logprobs = fields.top_logprobs >= 0;
  plan.return_token_ids = fields.return_token_ids;
  if (plan.return_token_ids) plan.prompt_ids = generation.prompt;
  plan.accepted_at = accepted_at;
  LiveRequests::Ticket ticket = live.enter();
  const std::uint64_t number = ticket.number();
  generation.sink = std::make_unique<TextSink>(bundle.tokenizer(), std::move(plan), channel,
                                               metrics, std::move(ticket));
  const Result<RequestId> id = engine.submit(std::move(generation));
  if (!id) return std::unexpected(to_api_error(id.error()));
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

void Service::begin_drain() {
  state_->begin_drain();
}

}  // namespace reprise
