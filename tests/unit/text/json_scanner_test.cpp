// JsonScanner: values end where they end, and what can never be JSON fails at its first wrong byte.
#include "text/json_scanner.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "base/json.h"

namespace reprise::test {
namespace {

using Step = JsonScanner::Step;

// How many bytes it took, and the last step.
std::pair<std::size_t, Step> scan(std::string_view text) {
  JsonScanner scanner;
  for (std::size_t index = 0; index < text.size(); ++index) {
    const Step step = scanner.push(text[index]);
    if (step != Step::more) return {index + 1, step};
  }
  return {text.size(), Step::more};
}

TEST(JsonScanner, ValuesEnd) {
  for (const std::string_view text :
       {R"({})", R"([])", R"("")", R"("a\"\\\u00e9\n")", R"({"a":[1,-0.5e+7,{"b":null}],"c":true})",
        R"([ false , 0 , -1.0E-2 , [ ] , { } ])", "[\n\t1 ]"}) {
    EXPECT_EQ(scan(std::string(text) + "}"), (std::pair{text.size(), Step::done})) << text;
  }
}

TEST(JsonScanner, WrongBytesFail) {
  const std::pair<std::string_view, std::size_t> cases[] = {{"1", 1},          {"x", 1},
                                                            {" {", 1},         {"{1", 2},
                                                            {"{\"a\"}", 5},    {"{\"a\":}", 6},
                                                            {"{\"a\":1,}", 8}, {"[1,]", 4},
                                                            {"[1}", 3},        {"{]", 2},
                                                            {"[01", 3},        {"[-x", 3},
                                                            {"[1.]", 4},       {"[1e]", 4},
                                                            {"[1e+]", 5},      {"[tru]", 5},
                                                            {"[nulll", 6},     {"\"\\x", 3},
                                                            {"\"\\u12g", 6},   {"\"\n", 2},
                                                            {"[1 2", 4},       {"{\"a\" \"b\"", 6},
                                                            {"[truefalse", 6}};
  for (const auto& [text, place] : cases) {
    EXPECT_EQ(scan(text), (std::pair{place, Step::failed})) << text;
  }
}

TEST(JsonScanner, DepthIsThatOfTheParser) {
  const std::string deepest(JsonLimits{}.depth_max, '[');
  EXPECT_EQ(scan(deepest).second, Step::more);
  EXPECT_EQ(scan(deepest + "[").second, Step::failed);
  const std::string closed = deepest + std::string(deepest.size(), ']');
  EXPECT_EQ(scan(closed).second, Step::done);
  EXPECT_TRUE(parse_json(closed).has_value());
}

// On random texts the scanner and the parser agree, apart from what the header leaves to the
// parser (none of that is in the alphabet).
TEST(JsonScanner, AgreesWithTheParser) {
  constexpr std::string_view kAlphabet[] = {"{",     "}",     "[",    "]", ",", ":",
                                            "\"a\"", "\"b\"", "1",    "0", "-", ".",
                                            "e",     "true",  "null", " ", "\\"};
  std::mt19937_64 random(3);
  std::size_t whole = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::string text = random() % 2 == 0 ? "[" : "{";
    for (std::size_t left = random() % 8; left > 0; --left) {
      text += kAlphabet[random() % std::size(kAlphabet)];
    }
    const auto [taken, step] = scan(text);
    const auto parsed = parse_json(text);
    if (!parsed) {
      ASSERT_FALSE(step == Step::done && taken == text.size() &&
                   parsed.error().message.find("twice") == std::string::npos)
          << text;
      continue;
    }
    ++whole;
    // The parser allows space behind the value.
    ASSERT_EQ(step, Step::done) << text;
    ASSERT_EQ(text.find_first_not_of(' ', taken), std::string::npos) << text;
  }
  EXPECT_GT(whole, 1'000U);
}

}  // namespace
}  // namespace reprise::test
