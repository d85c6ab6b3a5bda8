// Numbers with their nouns, for people.
#pragma once
#include <concepts>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace reprise {

// "1 token", "2 tokens"; of nouns that take an s.
std::string counted(std::integral auto count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace reprise
