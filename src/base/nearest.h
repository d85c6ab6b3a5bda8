// The word that somebody probably meant.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace reprise {

// The candidate with the smallest edit distance to `word`; empty when none is near (distance above
// a third of its length, at least 2).
std::string nearest_word(std::string_view word, std::span<const std::string> candidates);

}  // namespace reprise
