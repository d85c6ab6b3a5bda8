// Edit distance by dynamic programming. Source: Wagner & Fischer 1974.
#include "base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace reprise {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); i++) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); j++) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// The shortest candidate that goes on where `word` ends: --temp, --temperature.
std::string completed_word(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLettersMin = 2;
  const std::size_t letters = word.find_first_not_of('-');
  if (letters == std::string_view::npos || word.size() - letters < kLettersMin) return {};
  std::string best;
  for (const std::string& candidate : candidates) {
    if (!candidate.starts_with(word)) continue;
    if (best.empty() || candidate.size() < best.size()) best = candidate;
  }
  return best;
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string> candidates) {
  std::string best = completed_word(word, candidates);
  if (!best.empty()) return best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace reprise
