// One look at every field. NaN fails every comparison, so ranges are written as what is right.
#include "engine/request_check.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"

namespace reprise {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();  // every finite number

// What a sequence that runs alone needs at most on its way to `length` tokens: while a page is
// written a windowed group holds one page more than it keeps.
std::size_t bytes_alone(const KvLayout& layout, Position length) {
  std::size_t bytes = layout.sequence_bytes(length);
  for (const SpanGroup& group : layout.groups) bytes += group.page_bytes();
  return bytes;
}

Position longest_fitting(const KvLayout& layout, Position context_length, std::size_t budget) {
  Position fits = 0, too_long = context_length + 1;
  while (fits + 1 < too_long) {
    const Position middle = fits + (too_long - fits) / 2;
    (bytes_alone(layout, middle) <= budget ? fits : too_long) = middle;
  }
  return fits;
}

Status check_range(const char* field, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  const std::string range = most < kLargest ? fmt::format("{} to {}", least, most)
                            : least > -kLargest
                                ? fmt::format("a finite number of {} or more", least)
                                : std::string("a finite number");
  return fail(Errc::invalid_argument, fmt::format("{} is {}, expected {}", field, value, range),
              field);
}

Status check_least(const char* field, Position value, Position least) {
  if (value >= least) return {};
  return fail(Errc::invalid_argument,
              fmt::format("{} is {}, expected {} or more", field, value, least), field);
}

Status check_numbers(const SamplingParams& sampling) {
  TRY(check_range("temperature", sampling.temperature, 0, kLargest));
  TRY(check_least("top_k", sampling.top_k, 0));
  TRY(check_range("typical_p", sampling.typical_p, 0, 1));
  TRY(check_range("top_p", sampling.top_p, 0, 1));
  TRY(check_range("min_p", sampling.min_p, 0, 1));
  TRY(check_range("xtc_probability", sampling.xtc_probability, 0, 1));
  TRY(check_range("xtc_threshold", sampling.xtc_threshold, 0, 1));
  TRY(check_range("repetition_penalty", sampling.repetition_penalty,
                  std::numeric_limits<double>::min(), kLargest));
  TRY(check_least("repetition_window", sampling.repetition_window, -1));
  TRY(check_range("frequency_penalty", sampling.frequency_penalty, -kLargest, kLargest));
  TRY(check_range("presence_penalty", sampling.presence_penalty, -kLargest, kLargest));
  TRY(check_range("dry_multiplier", sampling.dry.multiplier, 0, kLargest));
  TRY(check_range("dry_base", sampling.dry.base, 1, kLargest));
  TRY(check_least("dry_allowed_length", sampling.dry.allowed_length, 0));
  return check_least("dry_penalty_last_n", sampling.dry.window, -1);
}

}  // namespace

RequestCheck::RequestCheck(KvLayout layout, int vocabulary, Position context_length,
                           std::size_t kv_budget_bytes)
    : layout_(std::move(layout)),
      vocabulary_(vocabulary),
      context_length_(context_length),
      kv_budget_bytes_(kv_budget_bytes),
      fitting_length_(longest_fitting(layout_, context_length, kv_budget_bytes)) {}

Status RequestCheck::check_ids(std::span<const TokenId> ids, const char* field) const {
  for (const TokenId id : ids) {
    if (id >= 0 && id < vocabulary_) continue;
    return fail(Errc::invalid_argument,
                fmt::format("{} holds token id {}, the vocabulary has {}", field, id, vocabulary_),
                field);
  }
  return {};
}

Status RequestCheck::check(const GenerationRequest& request) const {
  CHECK(request.sink != nullptr);
  if (request.prompt.empty()) {
    return fail(Errc::invalid_argument, "the prompt has no tokens", "prompt");
  }
  TRY(check_ids(request.prompt, "prompt"));
  TRY(check_ids(request.stop_ids, "stop_token_ids"));
  TRY(check_ids(request.banned_ids, "banned_ids"));
  TRY(check_numbers(request.sampling));
  TRY(check_edits(request.sampling));
  for (const auto& [field, count] : {std::pair{"top_logprobs", request.top_logprobs},
                                     std::pair{"prompt_logprobs", request.prompt_logprobs}}) {
    if (count <= vocabulary_) continue;
    return fail(Errc::invalid_argument,
                fmt::format("{} is {}, the vocabulary has {}", field, count, vocabulary_), field);
  }
  TRY(check_lengths(request));
  return check_marks(request);
}

Status RequestCheck::check_edits(const SamplingParams& sampling) const {
  const auto is_before = [](const LogitBias& a, const LogitBias& b) { return a.id < b.id; };
  for (std::size_t i = 0; i < sampling.logit_bias.size(); i++) {
    const LogitBias& bias = sampling.logit_bias[i];
    TRY(check_ids({&bias.id, 1}, "logit_bias"));
    TRY(check_range("logit_bias", static_cast<double>(bias.bias), -kLargest, kLargest));
    if (i == 0 || is_before(sampling.logit_bias[i - 1], bias)) continue;
    return fail(Errc::invalid_argument, "logit_bias has ids that do not ascend", "logit_bias");
  }
  TRY(check_ids(sampling.dry.breakers, "dry_sequence_breakers"));
  if (std::ranges::is_sorted(sampling.dry.breakers)) return {};
  return fail(Errc::invalid_argument, "dry_sequence_breakers has ids that do not ascend",
              "dry_sequence_breakers");
}

Status RequestCheck::check_lengths(const GenerationRequest& request) const {
  const auto prompt = static_cast<Position>(request.prompt.size());
  TRY(check_least("max_tokens", request.max_tokens, 0));
  if (prompt > context_length_ || request.max_tokens > context_length_ - prompt) {
    return fail(Errc::invalid_argument,
                fmt::format("{} prompt tokens and max_tokens {} exceed the context length of {} "
                            "tokens",
                            prompt, request.max_tokens, context_length_),
                "prompt");
  }
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    return fail(Errc::invalid_argument,
                fmt::format("min_tokens is {}, expected 0 to max_tokens, which is {}",
                            request.min_tokens, request.max_tokens),
                "min_tokens");
  }
  // The last token of a reply is never forwarded.
  const Position longest = prompt + std::max<Position>(request.max_tokens - 1, 0);
  if (longest <= fitting_length_) return {};
  return fail(Errc::exhausted,
              fmt::format("{} prompt tokens and max_tokens {} need {} bytes of keys and values; "
                          "the budget of {} holds {} tokens",
                          prompt, request.max_tokens, bytes_alone(layout_, longest),
                          kv_budget_bytes_, fitting_length_),
              prompt > fitting_length_ ? "prompt" : "max_tokens");
}

Status RequestCheck::check_marks(const GenerationRequest& request) const {
  const auto prompt = static_cast<Position>(request.prompt.size());
  if (request.history_boundary < 0 || request.history_boundary > prompt) {
    return fail(Errc::invalid_argument,
                fmt::format("history boundary is {}, the prompt has {} tokens",
                            request.history_boundary, prompt),
                "history_boundary");
  }
  const std::vector<Position>& ends = request.turn_ends;
  if (ends.empty()) return {};
  if (std::ranges::is_sorted(ends) && ends.front() >= 1 && ends.back() <= prompt) return {};
  return fail(Errc::invalid_argument,
              fmt::format("turn ends are not ascending places of the prompt's {} tokens", prompt),
              "turn_ends");
}

}  // namespace reprise
