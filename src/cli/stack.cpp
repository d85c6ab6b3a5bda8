// Loading with progress, and the engine's options from the command's.
#include "cli/stack.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "base/log.h"
#include "base/machine.h"
#include "cli/progress_line.h"

namespace reprise {
namespace {

// Of one page of each group.
std::size_t column_bytes(const KvLayout& layout) {
  std::size_t bytes = 0;
  for (const SpanGroup& group : layout.groups) bytes += group.page_bytes();
  return bytes;
}

Result<EngineOptions> engine_options_from(const Options& options, const ModelConfig& config) {
  EngineOptions engine;
  engine.context_length =
      options.context_length > 0 ? options.context_length : config.context_length;
  engine.sequences_max = options.parallel;
  engine.queue_max = static_cast<std::size_t>(options.queue);
  engine.prefill_rows_max = options.prefill_rows;
  engine.step_target_ms = options.step_ms;
  engine.decode_target_ms = options.decode_ms;
  engine.speculation = options.speculation;
  engine.kv_type = options.kv_type;
  engine.kv_budget_bytes =
      options.cache_bytes > 0 ? options.cache_bytes : memory_available_bytes() / 2;
  engine.cache.enabled = options.prompt_cache;
  engine.cache.store = options.cache_store;
  engine.cache.min_prefix = options.cache_min_prefix;
  engine.cache.ttl_ms = options.cache_ttl_seconds * 1000;
  TRY_ASSIGN(const std::size_t share, parse_share(options.cache_pin_max, engine.kv_budget_bytes));
  engine.cache.pinned_bytes_max = std::min(2 * share, engine.kv_budget_bytes / 2);
  engine.cache.pinned_bytes_per_tenant = std::min(share, engine.cache.pinned_bytes_max);
  return engine;
}

// Before anything that cannot tell an error builds on it.
Status check_reservation(const Options& options, const KvLayout& layout, std::size_t budget) {
  const Status room = PagePool::check(layout, budget);
  if (room) return {};
  return fail(
      room.error().code,
      fmt::format("{} {} bytes; {}", options.cache_bytes > 0 ? "got" : "half of the free memory is",
                  budget, room.error().message),
      "--prompt-cache-capacity");
}

}  // namespace

Status check_started(const ThreadPool& pool, int asked) {
  if (pool.threads() == asked) return {};
  return fail(Errc::exhausted,
              fmt::format("asked for {} threads, but the system gave {}{}", asked, pool.threads(),
                          address_space_note()),
              "--threads");
}

Error refused(std::string_view what, const std::exception& error) {
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  const bool no_thread =
      of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again;
  return {Errc::exhausted, fmt::format("{}: the system refused {}{}", what,
                                       no_thread              ? "a thread"
                                       : of_system == nullptr ? "memory"
                                                              : error.what(),
                                       address_space_note())};
}

int report(const Error& error) {
  const bool named = !error.field.empty() && error.message.find(error.field) == std::string::npos;
  const std::string line =
      fmt::format("reprise: {}{}\n", named ? error.field + ": " : "", error.message);
  write_stderr(line);  // where nothing can be written, the exit code still tells
  return 1;
}

Result<Stack> Stack::load(const Options& options) {
  TRY(configure_log(options.log_level));
  if (options.model.empty()) {
    return fail(Errc::invalid_argument,
                "no model given: -m FILE.gguf or -m FOLDER, or REPRISE_MODEL", "--model");
  }
  if (options.thread_counts.size() > 1) {
    return fail(Errc::invalid_argument,
                fmt::format("got {} numbers, expected 1: only bench takes a list",
                            options.thread_counts.size()),
                "--threads");
  }
  Stack stack;
  Result<const kernels::KernelTable*> kernels = kernels::choose_kernels(options.isa);
  if (!kernels) return fail(kernels.error().code, kernels.error().message, "--isa");
  stack.kernels = *kernels;
  const int threads = options.threads > 0 ? options.threads : usable_cpus();
  stack.pool = std::make_unique<ThreadPool>(threads);
  TRY(check_started(*stack.pool, threads));
  ProgressLine line("packing weights", "MiB", ProgressLine::Log::quarters);
  const auto show = [&](std::size_t done, std::size_t total) {
    if (options.log_level == "off" || options.log_level == "error") return;
    line.show(done >> 20, total >> 20);
  };
  Result<Bundle> loaded = unless_refused("the model", [&] {
    return Bundle::load(options.model, *stack.pool, show, options.quantize);
  });
  line.clear();
  TRY_ASSIGN(Bundle bundle, std::move(loaded));
  stack.bundle = std::make_unique<Bundle>(std::move(bundle));
  const ModelConfig& config = stack.bundle->model().config();
  if (options.context_length > config.context_length) {
    return fail(Errc::invalid_argument,
                fmt::format("got {}, but the model was trained for {} tokens",
                            options.context_length, config.context_length),
                "--ctx-size");
  }
  spdlog::info("{} ({}), {} layers, {} MiB of weights, kernels {}, {} threads", config.name,
               config.family, config.layers.size(), stack.bundle->model().weight_bytes() >> 20,
               stack.kernels->isa, threads);
  return stack;
}

Status Stack::start_engine(const Options& options) {
  const ModelConfig& config = bundle->model().config();
  TRY_ASSIGN(EngineOptions engine_options, engine_options_from(options, config));
  engine_options.cache.words = bundle->model().snapshot_words();
  const KvLayout layout = config.kv_layout(options.kv_type);
  const std::size_t column = column_bytes(layout);
  if (engine_options.kv_budget_bytes < 2 * column) {
    return fail(Errc::exhausted,
                fmt::format("got {} bytes, but {} tokens of this model take {} bytes",
                            engine_options.kv_budget_bytes, 2 * kPagePositions, 2 * column),
                "--prompt-cache-capacity");
  }
  TRY(check_reservation(options, layout, engine_options.kv_budget_bytes));
  const auto start = [&] {
    return unless_refused("the engine", [&] {
      return Result<std::unique_ptr<Engine>>(
          std::make_unique<Engine>(bundle->model(), *kernels, *pool, engine_options));
    });
  };
  TRY_ASSIGN(engine, start());
  const Position fits = engine->fitting_length();
  const Position asked = engine_options.context_length;
  if (fits >= asked) return {};
  const std::size_t needed = layout.sequence_bytes(asked) + column;
  if (options.context_length > 0) {
    engine.reset();
    return fail(Errc::exhausted,
                fmt::format("got {} tokens, which need {} bytes of keys and values; the budget of "
                            "{} bytes (--prompt-cache-capacity) holds {} tokens",
                            asked, needed, engine_options.kv_budget_bytes, fits),
                "--ctx-size");
  }
  spdlog::warn(
      "the context is {} tokens, not the model's {}: those need {} bytes of keys and values, the "
      "budget (--prompt-cache-capacity) is {}",
      fits, asked, needed, engine_options.kv_budget_bytes);
  engine_options.context_length = fits;
  engine.reset();  // its buffers go before the new ones come
  TRY_ASSIGN(engine, start());
  return {};
}

}  // namespace reprise
