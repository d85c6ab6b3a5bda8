// Edits are collected by token, then applied: a request touches few tokens of a large vocabulary.
#include "engine/logit_editor.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace reprise {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr std::size_t kWordBits = 32;

bool is_repetition_on(const SamplingParams& params) {
  return params.repetition_penalty != 1.0 && params.repetition_window != 0;
}

bool counts_reply(const SamplingParams& params) {
  return params.frequency_penalty != 0.0 || params.presence_penalty != 0.0;
}

bool is_dry_on(const DryParams& dry) {
  return dry.multiplier > 0.0 && dry.window != 0;
}

std::span<const TokenId> newest(std::span<const TokenId> tokens, Position window) {
  if (window < 0 || static_cast<std::size_t>(window) >= tokens.size()) return tokens;
  return tokens.last(static_cast<std::size_t>(window));
}

// losses[k] = multiplier * base^k by repeated multiplication, up to `most` or to the first that
// reaches the bound: later ones are the same.
void fill_losses(const DryParams& dry, std::size_t most, std::vector<double>& losses) {
  losses.clear();
  double loss = dry.multiplier;
  while (losses.size() < most && loss < kDryLossMax) {
    losses.push_back(loss);
    loss *= dry.base;
  }
  losses.push_back(std::min(loss, kDryLossMax));
}

}  // namespace

bool LogitEditor::is_needed(const SamplingParams& params, const SamplingPlace& place) {
  return !params.logit_bias.empty() || is_repetition_on(params) || counts_reply(params) ||
         is_dry_on(params.dry) || !place.mask.empty() || !place.banned.empty() ||
         !place.banned_stops.empty();
}

std::span<const float> LogitEditor::edit(std::span<const float> logits,
                                         const SamplingParams& params, const SamplingPlace& place) {
  row_.assign(logits.begin(), logits.end());
  places_.resize(logits.size(), 0);
  collect(params, place);
  apply(params);
  for (const Edit& edit : edits_) places_[static_cast<std::size_t>(edit.id)] = 0;
  edits_.clear();
  ban(place);
  return row_;
}

LogitEditor::Edit& LogitEditor::edit_of(TokenId id) {
  const auto index = static_cast<std::size_t>(id);
  DCHECK(index < row_.size());
  if (places_[index] == 0) {
    edits_.push_back({.id = id});
    places_[index] = static_cast<std::uint32_t>(edits_.size());
  }
  return edits_[places_[index] - 1];
}

void LogitEditor::collect(const SamplingParams& params, const SamplingPlace& place) {
  for (const LogitBias& bias : params.logit_bias) {
    edit_of(bias.id).bias = static_cast<double>(bias.bias);
  }
  if (is_repetition_on(params)) {
    for (const TokenId id : newest(place.tokens, params.repetition_window)) {
      edit_of(id).is_repeated = true;
    }
  }
  if (counts_reply(params)) {
    for (const TokenId id : place.tokens.subspan(static_cast<std::size_t>(place.prompt_length))) {
      edit_of(id).count++;
    }
  }
  if (is_dry_on(params.dry)) collect_repeats(params.dry, newest(place.tokens, params.dry.window));
}

void LogitEditor::collect_repeats(const DryParams& dry, std::span<const TokenId> tokens) {
  const auto allowed = static_cast<std::size_t>(std::max(dry.allowed_length, 1));
  const std::span<const std::size_t> lengths = repeats_.find(tokens, dry.breakers);
  const auto longest = std::ranges::max_element(lengths);
  if (longest == lengths.end() || *longest < allowed) return;
  // A stretch of no tokens is none, even where lengths from 0 on are not allowed.
  const auto begin = static_cast<std::size_t>(dry.allowed_length);
  fill_losses(dry, *longest - begin, losses_);
  for (std::size_t next = 1; next < tokens.size(); next++) {
    if (lengths[next - 1] < allowed) continue;
    Edit& edit = edit_of(tokens[next]);
    const std::size_t above = lengths[next - 1] - begin;
    edit.dry_loss = std::max(edit.dry_loss, losses_[std::min(above, losses_.size() - 1)]);
  }
}

void LogitEditor::apply(const SamplingParams& params) {
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
  const auto finite = [&](double value) { return std::clamp(value, -kLargest, kLargest); };
  for (const Edit& edit : edits_) {
    float& logit = row_[static_cast<std::size_t>(edit.id)];
    if (logit == kImpossible) continue;
    double value = static_cast<double>(logit) + edit.bias;
    if (edit.is_repeated) {
      value = value > 0 ? value / params.repetition_penalty : value * params.repetition_penalty;
    }
    value = finite(value);  // after each step, so that no difference of infinities arises
    if (edit.count > 0) {
      value = finite(value - static_cast<double>(edit.count) * params.frequency_penalty);
      value = finite(value - params.presence_penalty);
    }
    logit = static_cast<float>(finite(value - edit.dry_loss));
  }
}

void LogitEditor::ban(const SamplingPlace& place) {
  for (const std::span<const TokenId> banned : {place.banned, place.banned_stops}) {
    for (const TokenId id : banned) row_[static_cast<std::size_t>(id)] = kImpossible;
  }
  if (place.mask.empty()) return;
  for (std::size_t first = 0, word = 0; first < row_.size(); first += kWordBits, word++) {
    const std::uint32_t allowed = word < place.mask.size() ? place.mask[word] : 0;
    const std::size_t end = std::min(first + kWordBits, row_.size());
    if (allowed == 0) {
      std::fill(row_.begin() + static_cast<std::ptrdiff_t>(first),
                row_.begin() + static_cast<std::ptrdiff_t>(end), kImpossible);
      continue;
    }
    if (allowed == ~std::uint32_t{0}) continue;
    for (std::size_t id = first; id < end; id++) {
      if ((allowed >> (id - first) & 1) == 0) row_[id] = kImpossible;
    }
  }
}

}  // namespace reprise
