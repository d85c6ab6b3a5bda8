// What a token costs the sampler on 262,144 logits, by what the request asks for. Thread time, the
// least of many rounds: other work on the machine hardly shows.
#include "engine/sampling.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr int kVocabulary = 262'144;
constexpr int kTokens = 8192, kPrompt = 6000;
constexpr int kRounds = 60;

double thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

struct Case {
  std::string name;
  SamplingParams params = {};
  SamplingPlace place = {};
  int top_logprobs = -1;
};

// At temperature 2 nearly all of the floor can be drawn.
SamplingParams hot(SamplingParams params) {
  params.temperature = 2;
  return params;
}

// A few likely tokens over a wide floor, as models give them.
std::vector<float> likely_row() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(-4, 2.5f);
  std::vector<float> row(kVocabulary);
  for (float& logit : row) logit = normal(random);
  for (int i = 0; i < 40; i++) row[random() % kVocabulary] = 12 - 0.3f * static_cast<float>(i);
  return row;
}

void measure() {
  const std::vector<float> row = likely_row();
  std::mt19937 random(2);
  std::vector<TokenId> tokens(kTokens), stops = {1, 106};
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 4000);
  std::vector<std::uint32_t> few(kVocabulary / 32), most(kVocabulary / 32, ~0u);
  for (int i = 0; i < 300; i++) few[random() % few.size()] |= 1u << (random() % 32);
  for (int i = 0; i < 3000; i++) most[random() % most.size()] = random();
  const SamplingPlace place{.tokens = tokens, .prompt_length = kPrompt};
  SamplingPlace masked = place, open = place, banned = place;
  masked.mask = few;
  open.mask = most;
  banned.banned = stops;
  const SamplingParams penalties{
      .repetition_penalty = 1.1, .frequency_penalty = 0.5, .presence_penalty = 0.5};
  const SamplingParams dry{.dry = {.multiplier = 0.8}};
  const SamplingParams xtc{.xtc_probability = 1, .xtc_threshold = 0};
  SamplingParams filters = xtc;
  filters.top_k = 250'000;
  filters.typical_p = filters.top_p = 0.9999;
  filters.min_p = 0.000001;
  SamplingParams everything = filters;
  everything.repetition_penalty = 1.1;
  everything.frequency_penalty = everything.presence_penalty = 0.5;
  everything.dry.multiplier = 0.8;
  const Case cases[] = {{"greedy", {.temperature = 0}, place},
                        {"temperature 1", {}, place},
                        {"temperature 0.7", {.temperature = 0.7}, place},
                        {"top_k 40, top_p 0.95", {.top_k = 40, .top_p = 0.95}, place},
                        {"temperature 1, 20 logprobs", {}, place, 20},
                        {"two banned ids", {}, banned},
                        {"three penalties, 8192 tokens", penalties, place},
                        {"DRY, 8192 tokens", dry, place},
                        {"mask of 300 tokens", {}, masked},
                        {"mask of most tokens", {}, open},
                        {"typical_p 0.9", {.typical_p = 0.9}, place},
                        {"top_k 40, typical_p 0.9", {.top_k = 40, .typical_p = 0.9}, place},
                        {"xtc", {.xtc_probability = 1}, place},
                        {"2: draw", hot({}), place},
                        {"2: top_k 100000", hot({.top_k = 100'000}), place},
                        {"2: top_p 0.5", hot({.top_p = 0.5}), place},
                        {"2: top_p 0.9999", hot({.top_p = 0.9999}), place},
                        {"2: min_p 0.00001", hot({.min_p = 0.00001}), place},
                        {"2: typical_p 0.5", hot({.typical_p = 0.5}), place},
                        {"2: typical_p 0.9999", hot({.typical_p = 0.9999}), place},
                        {"2: xtc_threshold 0", hot(xtc), place},
                        {"2: all filters", hot(filters), place},
                        {"2: all filters and edits", hot(everything), open}};
  Sampler sampler(*kernels::choose_kernels("").value());
  for (const Case& each : cases) {
    double least = std::numeric_limits<double>::infinity();
    SamplingPlace at = each.place;
    for (int round = 0; round < kRounds; round++, at.position++) {
      const double begin = thread_ms();
      const auto sampled = sampler.sample(row, each.params, at, each.top_logprobs);
      const double took = thread_ms() - begin;
      if (sampled) least = std::min(least, took);
    }
    fmt::print("{:<30} {:8.1f} us\n", each.name, least * 1000);
  }
}

}  // namespace
}  // namespace reprise

int main() {
  reprise::measure();
}
