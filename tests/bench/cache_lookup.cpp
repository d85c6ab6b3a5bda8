// How long a prompt-cache lookup takes with 10 and with 100,000 entries: it must not grow with
// them.
//
// Stub pages: a tiny layout whose pages nobody writes. The same ten prompts are looked up in both
// caches, in turn; each figure is the median of many rounds. Two shapes: entries that part at once,
// and entries that share a system prompt and part behind it; each answered from warm processor
// caches, and (as after a forward pass) from cold ones.
// `--check` exits 1 where a ratio is above 1.5.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "kv/prompt_cache.h"

namespace reprise {
namespace {

using Tokens = std::vector<TokenId>;
using Clock = std::chrono::steady_clock;

constexpr int kFew = 10, kMany = 100'000;
constexpr int kPromptBlocks = 32;
constexpr double kRatioMax = 1.5;
const CacheScope kScope{"tenant", "salt"};

KvLayout stub_layout() {
  const std::vector<std::optional<LayerKv>> layers = {
      LayerKv{{SpanKind::standard, 0}, 1, 16, 16}, LayerKv{{SpanKind::rotating, 256}, 1, 16, 16}};
  return make_kv_layout(layers, kernels::KvType::f16);
}

std::uint64_t mix(std::uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// An entry's tokens: `shared` blocks that all begin with, then `own` blocks of its own.
Tokens entry(int number, int shared, int own) {
  Tokens tokens;
  const auto add = [&](std::uint64_t seed, int blocks) {
    for (int i = 0; i < blocks * kPagePositions; i++)
      tokens.push_back(
          static_cast<TokenId>(mix(seed * 1'000'003 + static_cast<unsigned>(i)) % 250'000));
  };
  add(1, shared);
  add(1000 + static_cast<std::uint64_t>(number), own);
  return tokens;
}

class Filled {
 public:
  // The first ten entries are whole prompts; the others, which only make the trie large, leave
  // after their first own block.
  Filled(int entries, int shared)
      : pool_(stub_layout(), std::size_t{4} << 30),
        cache_(pool_, {}, [] { return std::int64_t{0}; }) {
    for (int i = 0; i < entries; i++) {
      const Tokens tokens = entry(i, shared, i < kFew ? kPromptBlocks - shared : 1);
      if (i < kFew) prompts_.push_back(tokens);
      SequenceCache sequence(pool_);
      PromptCache::Path path = cache_.start(kScope);
      const auto limit = static_cast<Position>(tokens.size());
      const PromptCache::Match match = cache_.match(kScope, tokens, limit);
      if (match.length > 0 && !cache_.restore(kScope, tokens, match, sequence, path)) std::exit(2);
      if (!sequence.reserve(limit)) std::exit(2);
      sequence.commit(limit);
      cache_.publish(path, tokens, sequence, true);
      cache_.mark(path, tokens, limit, MarkKind::prompt_end);
    }
  }

  double microseconds_of_lookup(std::size_t prompt) {
    const Tokens& tokens = prompts_[prompt];
    const Clock::time_point begin = Clock::now();
    const PromptCache::Match match =
        cache_.match(kScope, tokens, static_cast<Position>(tokens.size()) - 1);
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
    if (match.length != static_cast<Position>(tokens.size()) - 1) std::exit(2);
    return elapsed.count();
  }
  std::size_t nodes() const { return cache_.stats().nodes; }

 private:
  PagePool pool_;
  PromptCache cache_;
  std::vector<Tokens> prompts_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Pushes what the processor's caches hold out of them.
void forget_caches(std::vector<std::uint64_t>& ballast) {
  for (std::size_t i = 0; i < ballast.size(); i += 8) ballast[i]++;
}

// The ratio of medians, few against many; the two take turns.
double compare(std::string_view name, Filled& few, Filled& many, int rounds, bool is_cold) {
  std::vector<std::uint64_t> ballast(is_cold ? std::size_t{96} << 17 : 0);
  std::vector<double> times_few, times_many;
  for (int round = 0; round < rounds; round++) {
    for (std::size_t prompt = 0; prompt < kFew; prompt++) {
      for (Filled* filled : {&few, &many}) {
        if (is_cold) forget_caches(ballast);
        const double time = filled->microseconds_of_lookup(prompt);
        (filled == &few ? times_few : times_many).push_back(time);
      }
    }
  }
  const double ratio = median(times_many) / median(times_few);
  fmt::print("{}, {} caches: {} entries {:.2f} us, {} entries {:.2f} us, ratio {:.2f}\n", name,
             is_cold ? "cold" : "warm", kFew, median(times_few), kMany, median(times_many), ratio);
  return ratio;
}

// The worst ratio of all shapes.
double compare_all() {
  double worst = 0;
  for (const int shared : {0, 16}) {
    const std::string_view name =
        shared == 0 ? "entries that part at once" : "entries behind a shared system prompt";
    Filled few(kFew, shared);
    Filled many(kMany, shared);
    fmt::print("{}: {} and {} blocks, prompts of {} tokens\n", name, few.nodes(), many.nodes(),
               kPromptBlocks * kPagePositions);
    worst = std::max(worst, compare(name, few, many, 400, false));
    worst = std::max(worst, compare(name, few, many, 8, true));
  }
  fmt::print("worst ratio {:.2f}, at most {:.2f}\n", worst, kRatioMax);
  return worst;
}

}  // namespace
}  // namespace reprise

int main(int count, char** arguments) {
  const bool checks = count > 1 && std::string_view(arguments[1]) == "--check";
  const double worst = reprise::compare_all();
  return checks && worst > reprise::kRatioMax ? 1 : 0;
}
