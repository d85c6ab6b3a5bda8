// `reprise bench`: the time of one forward pass of r rows at depth d, as JSON. Rows 1 is decoding:
// the median of single steps, logits included; more rows are a prefill that ends in one row of
// logits. With --scenario: conversations with a server (scenario.h).
#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/scenario.h"
#include "cli/stack.h"
#include "model/decoder.h"

namespace reprise {
namespace {

constexpr int kDecodeSteps = 16;  // steps of one decode sample
constexpr int kChunk = 512;       // rows of one pass while filling the cache

Result<std::vector<int>> parse_list(std::string_view text, int low, int high, const char* flag) {
  std::vector<int> values;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    int value = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, value);
    if (error != std::errc{} || stop != text.data() + end || value < low || value > high) {
      return fail(Errc::invalid_argument,
                  fmt::format("got \"{}\", expected numbers from {} to {} with commas between",
                              text, low, high),
                  flag);
    }
    values.push_back(value);
    at = end + 1;
  }
  return values;
}

// The engine's forward pass without the engine.
class Bench {
 public:
  Bench(const Stack& stack, const Options& options, int depth_max, int rows_max)
      : stack_(&stack),
        pool_(stack.bundle->model().config().kv_layout(options.kv_type),
              2 * stack.bundle->model()
                          .config()
                          .kv_layout(options.kv_type)
                          .sequence_bytes(depth_max + rows_max) +
                  (std::size_t{256} << 20)),
        decoder_(stack.bundle->model(), *stack.kernels, *stack.pool, std::max(kChunk, rows_max), 1),
        cache_(pool_) {}

  // Text-like token ids: the same for every run, spread over the vocabulary.
  std::vector<TokenId> tokens(int count) {
    std::vector<TokenId> ids;
    const auto vocabulary = static_cast<std::uint32_t>(stack_->bundle->model().config().vocabulary);
    for (int i = 0; i < count; i++) {
      state_ = state_ * 1664525U + 1013904223U;
      ids.push_back(static_cast<TokenId>((state_ >> 8) % vocabulary));
    }
    return ids;
  }

  // Brings the shared cache to `depth` tokens.
  void fill(int depth) {
    while (cache_.offset() < depth) {
      step(cache_, tokens(static_cast<int>(std::min<Position>(kChunk, depth - cache_.offset()))));
    }
  }

  // Milliseconds of one pass of `rows` rows behind the filled cache; decode: of one of several
  // steps.
  double sample(int rows) {
    SequenceCache fork = cache_.fork();
    const int steps = rows == 1 ? kDecodeSteps : 1;
    std::vector<double> times;
    for (int i = 0; i < steps; i++) times.push_back(step(fork, tokens(rows)));
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

  std::string hash() const { return content_hash(std::as_bytes(last_logits_)); }

 private:
  double step(SequenceCache& cache, const std::vector<TokenId>& ids) {
    const auto begin = std::chrono::steady_clock::now();
    const Position end = cache.offset() + static_cast<Position>(ids.size());
    CHECK(cache.reserve(end));
    BatchEntry entry{&cache, ids, 1};
    last_logits_ = decoder_.forward({&entry, 1});
    cache.commit(end);
    cache.drop_unneeded();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }

  const Stack* stack_;
  PagePool pool_;
  Decoder decoder_;
  SequenceCache cache_;
  std::span<const float> last_logits_;
  std::uint32_t state_ = 1;
};

JsonObject measure(Bench& bench, int depth, int rows, int repetitions) {
  std::vector<double> samples;
  bench.sample(rows);  // warm-up
  for (int i = 0; i < repetitions; i++) samples.push_back(bench.sample(rows));
  std::ranges::sort(samples);
  const double median = samples[samples.size() / 2];
  return {{"depth", depth},
          {"rows", rows},
          {"milliseconds", median},
          {"milliseconds_best", samples.front()},
          {"tokens_per_second", 1000 * rows / median}};
}

}  // namespace

int run_bench(const Options& options) {
  if (!options.scenario.empty()) return run_scenario(options);
  if (!options.url.empty() || options.check) {
    return report({Errc::invalid_argument, "only with --scenario",
                   options.check ? "--check" : "--url"});
  }
  Result<std::vector<int>> depths = parse_list(options.depths, 0, 1 << 24, "--depths");
  if (!depths) return report(depths.error());
  const Result<std::vector<int>> rows = parse_list(options.rows, 1, 4096, "--rows");
  if (!rows) return report(rows.error());
  std::ranges::sort(*depths);
  Result<Stack> stack = Stack::load(options);
  if (!stack) return report(stack.error());
  const ModelConfig& config = stack->bundle->model().config();
  const int rows_max = std::ranges::max(*rows);
  if (depths->back() + std::max(rows_max, kDecodeSteps) > config.context_length) {
    return report({Errc::invalid_argument,
                   fmt::format("depth {} and {} rows exceed the model's context of {} tokens",
                               depths->back(), rows_max, config.context_length),
                   "--depths"});
  }
  Bench bench(*stack, options, depths->back(), rows_max);
  JsonArray results;
  for (const int depth : *depths) {
    bench.fill(depth);
    for (const int count : *rows)
      results.push_back(measure(bench, depth, count, options.repetitions));
  }
  const JsonObject report_json = {{"model", config.name},
                                  {"fingerprint", stack->bundle->model().fingerprint()},
                                  {"kernels", stack->kernels->isa},
                                  {"threads", stack->pool->threads()},
                                  {"results", results},
                                  {"logits_hash", bench.hash()}};
  fmt::print("{}\n", to_json(report_json));
  return 0;
}

}  // namespace reprise
