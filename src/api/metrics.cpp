// Metrics over prometheus-cpp: a registry for our own, a snapshot of the engine's at every look.
#include "api/metrics.h"

#include <vector>

#include <fmt/core.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace reprise {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

std::vector<double> latency_buckets() {
  return {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 300};
}

std::vector<double> inter_token_buckets() {
  return {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5, 5};
}

std::vector<double> token_buckets() {
  return {1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
}

MetricFamily single(std::string name, std::string help, MetricType type, double value) {
  ClientMetric metric;
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return {"reprise_" + std::move(name), std::move(help), type, {metric}};
}

template <class Number>
MetricFamily counter(std::string name, std::string help, Number value) {
  return single(std::move(name), std::move(help), MetricType::Counter, static_cast<double>(value));
}

template <class Number>
MetricFamily gauge(std::string name, std::string help, Number value) {
  return single(std::move(name), std::move(help), MetricType::Gauge, static_cast<double>(value));
}

void add_labelled(MetricFamily& family, std::string_view label, std::string_view value,
                  double number) {
  ClientMetric metric;
  metric.label.push_back({std::string(label), std::string(value)});
  if (family.type == MetricType::Counter) {
    metric.counter.value = number;
  } else {
    metric.gauge.value = number;
  }
  family.metric.push_back(std::move(metric));
}

void add_engine(std::vector<MetricFamily>& families, const EngineStats& stats) {
  families.push_back(gauge("requests_running", "Requests that run now.", stats.running));
  families.push_back(gauge("requests_waiting", "Requests that wait to run.", stats.waiting));
  families.push_back(counter("requests_accepted_total", "Generation requests.", stats.requests));
  families.push_back(counter("requests_refused_full_total", "Requests that found the queue full.",
                             stats.refused_full));
  families.push_back(counter("engine_steps_total", "Forward passes.", stats.steps));
  families.push_back(counter("preemptions_total",
                             "Requests that gave up their pages and began again.",
                             stats.preemptions));
  families.push_back(counter("prompt_tokens_total", "Prompt tokens.", stats.prompt_tokens));
  families.push_back(counter("prompt_tokens_cached_total", "Prompt tokens taken from the cache.",
                             stats.cached_tokens));
  families.push_back(counter("forwarded_rows_total", "Tokens forwarded.", stats.forwarded_rows));
  families.push_back(counter("speculation_drafted_tokens_total", "Tokens forwarded on a guess.",
                             stats.drafted_tokens));
  families.push_back(counter("speculation_accepted_tokens_total", "Guessed tokens that came true.",
                             stats.accepted_tokens));
  families.push_back(
      counter("completion_tokens_total", "Tokens sampled.", stats.completion_tokens));
  families.push_back(
      gauge("prefill_rows_per_second", "Measured prefill speed.", stats.prefill_rows_per_second));
  MetricFamily ends{
      "reprise_requests_ended_total", "Ended requests by reason.", MetricType::Counter, {}};
  add_labelled(ends, "reason", "stop", static_cast<double>(stats.ends_stop));
  add_labelled(ends, "reason", "length", static_cast<double>(stats.ends_length));
  add_labelled(ends, "reason", "cancelled", static_cast<double>(stats.ends_cancelled));
  add_labelled(ends, "reason", "timeout", static_cast<double>(stats.ends_timeout));
  add_labelled(ends, "reason", "error", static_cast<double>(stats.ends_error));
  families.push_back(std::move(ends));
  families.push_back(
      gauge("kv_budget_bytes", "Budget of all keys and values.", stats.kv_budget_bytes));
  families.push_back(gauge("kv_used_bytes", "Pages in use.", stats.kv_used_bytes));
  families.push_back(
      gauge("kv_committed_bytes", "Memory held for pages.", stats.kv_committed_bytes));
  families.push_back(gauge("kv_sequence_bytes", "Pages that running requests refer to.",
                           stats.sequence_pages_bytes));
}

void add_cache(std::vector<MetricFamily>& families, const PromptCacheStats& cache,
               std::size_t capacity_bytes) {
  families.push_back(counter("cache_lookups_total", "Prompt cache lookups.", cache.lookups));
  families.push_back(counter("cache_hits_total", "Prompt cache hits.", cache.hits));
  families.push_back(counter("cache_inserts_total", "Blocks published.", cache.inserts));
  families.push_back(
      counter("cache_tokens_reused_total", "Tokens that hits spared.", cache.tokens_reused));
  families.push_back(counter("cache_window_pages_dropped_total", "Windowed pages given up.",
                             cache.window_pages_dropped));
  families.push_back(counter("cache_retokenised_total",
                             "Prompts that repeat a reply's text in other tokens.",
                             cache.retokenised));
  families.push_back(
      counter("cache_pins_refused_total", "Pins beyond their bounds.", cache.pins_refused));
  families.push_back(gauge("cache_pinned_bytes", "Bytes that pins hold.", cache.pinned_bytes));
  families.push_back(gauge("cache_capacity_bytes",
                           "What the prompt cache may hold, running requests included.",
                           capacity_bytes));
  families.push_back(gauge("cache_entries", "Entries of the prompt cache.", cache.entries));
  families.push_back(gauge("cache_bytes", "Pages that the prompt cache refers to.", cache.bytes));
  MetricFamily misses{"reprise_cache_misses_total", "Misses by reason.", MetricType::Counter, {}};
  for (int reason = 0; reason < kMissReasons; reason++) {
    add_labelled(misses, "reason", miss_reason_name(static_cast<MissReason>(reason)),
                 static_cast<double>(cache.misses[static_cast<std::size_t>(reason)]));
  }
  families.push_back(std::move(misses));
  MetricFamily evictions{
      "reprise_cache_evictions_total", "Evictions by cause.", MetricType::Counter, {}};
  add_labelled(evictions, "cause", "lru", static_cast<double>(cache.evictions_lru));
  add_labelled(evictions, "cause", "ttl", static_cast<double>(cache.evictions_ttl));
  families.push_back(std::move(evictions));
}

}  // namespace

struct Metrics::State {
  explicit State(const Engine& the_engine)
      : engine(the_engine),
        replies(prometheus::BuildCounter()
                    .Name("reprise_http_replies_total")
                    .Help("Replies by endpoint and status.")
                    .Register(registry)),
        first_token(histogram("reprise_time_to_first_token_seconds",
                              "From the request's arrival to its first token.", latency_buckets())),
        inter_token(histogram("reprise_inter_token_seconds", "Between two tokens of one reply.",
                              inter_token_buckets())),
        duration(histogram("reprise_request_duration_seconds",
                           "From the request's arrival to its end.", latency_buckets())),
        prompt_tokens(histogram("reprise_request_prompt_tokens", "Prompt tokens of a request.",
                                token_buckets())),
        completion_tokens(histogram("reprise_request_completion_tokens",
                                    "Sampled tokens of a request.", token_buckets())) {}

  prometheus::Histogram& histogram(const char* name, const char* help,
                                   const std::vector<double>& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
  }

  const Engine& engine;
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& replies;
  prometheus::Histogram& first_token;
  prometheus::Histogram& inter_token;
  prometheus::Histogram& duration;
  prometheus::Histogram& prompt_tokens;
  prometheus::Histogram& completion_tokens;
};

Metrics::Metrics(const Engine& engine) : state_(std::make_unique<State>(engine)) {}
Metrics::~Metrics() = default;

void Metrics::count_reply(Endpoint endpoint, int status) {
  const prometheus::Labels labels = {{"endpoint", std::string(endpoint_name(endpoint))},
                                     {"status", fmt::format("{}", status)}};
  state_->replies.Add(labels).Increment();
}

void Metrics::observe_first_token(double seconds) {
  state_->first_token.Observe(seconds);
}

void Metrics::observe_inter_token(double seconds) {
  state_->inter_token.Observe(seconds);
}

void Metrics::observe_end(const SequenceEnd& end, double seconds) {
  state_->duration.Observe(seconds);
  state_->prompt_tokens.Observe(static_cast<double>(end.usage.prompt_tokens));
  state_->completion_tokens.Observe(static_cast<double>(end.usage.completion_tokens));
}

std::string Metrics::text() const {
  std::vector<MetricFamily> families;
  const EngineStats stats = state_->engine.stats();
  add_engine(families, stats);
  add_cache(families, stats.cache, stats.kv_budget_bytes);
  for (MetricFamily& family : state_->registry.Collect()) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace reprise
