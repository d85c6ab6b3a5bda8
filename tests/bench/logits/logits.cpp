// reprise_logits MODEL IDS: the logits of every token of a text, as raw float32 rows on stdout.
// reprise_logits --isas: the names of the kernel sets that this CPU has, a line each.
//
// IDS is a file of int32 token ids, one sequence. Rows of the model's whole vocabulary, in order;
// REPRISE_FORCE_ISA chooses the kernels, REPRISE_THREADS the threads (2), REPRISE_ROWS how many
// rows a forward pass takes (128). tools/kl reads it; the kernels' name goes to stderr.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "base/file.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kv/page_pool.h"
#include "kv/sequence_cache.h"
#include "model/checkpoint.h"
#include "model/decoder.h"
#include "model/model.h"

namespace reprise {
namespace {

constexpr std::size_t kIdsBytesMax = std::size_t{64} << 20;

std::string_view setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<int> number_setting(const char* name, int otherwise) {
  const std::string_view text = setting(name);
  if (text.empty()) return otherwise;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > 4096) {
    return fail(Errc::invalid_argument,
                fmt::format("got \"{}\", expected a number from 1 to 4096", text), name);
  }
  return value;
}

Result<std::vector<TokenId>> read_ids(const char* path, int vocabulary) {
  TRY_ASSIGN(const std::string bytes, read_file(path, kIdsBytesMax));
  std::vector<TokenId> ids(bytes.size() / sizeof(TokenId));
  std::memcpy(ids.data(), bytes.data(), ids.size() * sizeof(TokenId));
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocabulary) {
      return fail(Errc::invalid_argument,
                  fmt::format("token id {}, expected 0 to {}", id, vocabulary - 1), path);
    }
  }
  return ids;
}

Status write_logits(const char* model_path, const char* ids_path) {
  TRY_ASSIGN(const int threads, number_setting("REPRISE_THREADS", 2));
  TRY_ASSIGN(const int rows_max, number_setting("REPRISE_ROWS", 128));
  TRY_ASSIGN(const kernels::KernelTable* table,
             kernels::choose_kernels(setting("REPRISE_FORCE_ISA")));
  ThreadPool pool(threads);
  TRY_ASSIGN(Checkpoint checkpoint, Checkpoint::open(model_path));
  TRY_ASSIGN(const Model model,
             Model::load(std::make_unique<const Checkpoint>(std::move(checkpoint)), pool));
  const ModelConfig& config = model.config();
  TRY_ASSIGN(const std::vector<TokenId> ids, read_ids(ids_path, config.vocabulary));
  fmt::print(stderr, "{}\n", table->isa);

  const KvLayout layout = config.kv_layout(kernels::KvType::f16);
  const std::size_t budget = 2 * layout.sequence_bytes(static_cast<Position>(ids.size()));
  PagePool pages(layout, budget + (std::size_t{64} << 20));
  Decoder decoder(model, *table, pool, rows_max, rows_max);
  SequenceCache cache(pages);
  for (std::size_t at = 0; at < ids.size(); at += static_cast<std::size_t>(rows_max)) {
    const std::size_t rows = std::min(static_cast<std::size_t>(rows_max), ids.size() - at);
    const Position end = static_cast<Position>(at + rows);
    if (!cache.reserve(end)) {
      return fail(Errc::exhausted, fmt::format("no room for {} tokens", end), "pages");
    }
    BatchEntry entry{&cache, std::span(ids).subspan(at, rows), static_cast<int>(rows)};
    const std::span<const float> logits = decoder.forward({&entry, 1});
    if (std::fwrite(logits.data(), sizeof(float), logits.size(), stdout) != logits.size()) {
      return fail(Errc::io, "the reader has gone", "stdout");
    }
    cache.commit(end);
    cache.drop_unneeded();
  }
  std::fflush(stdout);
  return {};
}

}  // namespace
}  // namespace reprise

int main(int count, char** arguments) {
  if (count == 2 && std::string_view(arguments[1]) == "--isas") {
    for (const auto* table : reprise::kernels::available_kernels()) fmt::print("{}\n", table->isa);
    return 0;
  }
  if (count != 3) {
    fmt::print(stderr, "usage: reprise_logits MODEL IDS | --isas\n");
    return 2;
  }
  const reprise::Status done = reprise::write_logits(arguments[1], arguments[2]);
  if (!done) {
    fmt::print(stderr, "{}\n", done.error().message);
    return 1;
  }
  return 0;
}
