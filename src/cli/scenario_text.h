// Words of the scenarios: the same on every run, long and short ones mixed like prose.
#pragma once
#include <cstdint>
#include <string>

namespace reprise {

class ScenarioText {
 public:
  explicit ScenarioText(std::uint32_t seed) : state_(seed) {}

  // Uniform in [0, count).
  int draw(int count);
  // `count` words in sentences of about ten.
  std::string words(int count);
  // A description of a tool with its parameters, about 75 tokens.
  std::string tool(int number);

 private:
  std::uint64_t state_;
};

}  // namespace reprise
