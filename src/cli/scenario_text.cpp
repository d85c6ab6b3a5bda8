// A list of words and a generator of draws (PCG's multiplier, the high bits).
#include "cli/scenario_text.h"

#include <array>
#include <cctype>
#include <string_view>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr std::array<std::string_view, 64> kWords = {
    "the",     "old",       "harbour",  "clock",    "keeps",     "time",   "for",       "boats",
    "people",  "while",     "gulls",    "turn",     "over",      "grey",   "water",     "somebody",
    "paints",  "a",         "door",     "blue",     "because",   "last",   "year",      "it",
    "was",     "green",     "and",      "every",    "child",     "knows",  "that",      "lamp",
    "is",      "lit",       "at",       "six",      "in",        "winter", "nine",      "summer",
    "letters", "arrive",    "from",     "distant",  "cities",    "with",   "questions", "about",
    "prices",  "weather",   "engines",  "measured", "carefully", "before", "journeys",  "begin",
    "small",   "notebooks", "remember", "what",     "captains",  "forget", "between",   "storms"};
constexpr std::array<std::string_view, 12> kVerbs = {"read",   "write",  "search", "list",
                                                     "delete", "rename", "fetch",  "count",
                                                     "check",  "build",  "plan",   "send"};

std::string capitalised(std::string_view word) {
  std::string text(word);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace

int ScenarioText::draw(int count) {
  state_ = state_ * 6364136223846793005U + 1442695040888963407U;
  return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(count));
}

std::string ScenarioText::words(int count) {
  std::string text;
  for (int i = 0; i < count; i++) {
    const std::string_view word = kWords[static_cast<std::size_t>(draw(kWords.size()))];
    if (i > 0) text += i % 10 == 0 ? ". " : " ";
    text += i % 10 == 0 ? capitalised(word) : std::string(word);
  }
  return text + ".";
}

std::string ScenarioText::tool(int number) {
  const std::string_view verb = kVerbs[static_cast<std::size_t>(number) % kVerbs.size()];
  const std::string_view noun = kWords[static_cast<std::size_t>(draw(kWords.size()))];
  return fmt::format(
      "{{\"name\": \"{}_{}\", \"description\": \"{}\", \"parameters\": {{\"path\": "
      "{{\"type\": \"string\", \"description\": \"{}\"}}, \"limit\": {{\"type\": "
      "\"integer\"}}}}}}\n",
      verb, noun, words(16), words(10));
}

}  // namespace reprise
