// StopStrings against a search on the whole text, exhaustively on short texts.
#include <gtest/gtest.h>

#include "text/detokenizer.h"

namespace reprise::test {
namespace {

// What is let out of `text` as a whole: up to the first match of any stop string.
struct Verdict {
  std::string text;
  bool stopped;
  bool operator==(const Verdict&) const = default;
};

Verdict naive(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t place = 0; place < text.size(); ++place) {
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(place).starts_with(stop))
        return {text.substr(0, place), true};
    }
  }
  return {text, false};
}

// `cuts`: bit i set = a piece ends after byte i.
Verdict in_pieces(const std::string& text, std::uint32_t cuts,
                  const std::vector<std::string>& stops) {
  StopStrings watcher(stops);
  std::string out, piece;
  for (std::size_t place = 0; place < text.size(); ++place) {
    piece += text[place];
    if (((cuts >> place) & 1) == 0 && place + 1 < text.size()) continue;
    const auto outcome = watcher.push(piece);
    EXPECT_EQ(outcome.stopped, watcher.stopped());
    out += outcome.text;
    piece.clear();
    if (outcome.stopped) {
      EXPECT_EQ(watcher.push("more").text, "");
      EXPECT_TRUE(watcher.push("more").stopped);
      break;
    }
  }
  out += watcher.finish();
  return {out, watcher.stopped()};
}

TEST(StopStrings, EveryCuttingEqualsASearchOnTheWholeText) {
  const std::vector<std::string> lists[] = {{},
                                            {"a"},
                                            {"ab"},
                                            {"aba"},
                                            {"aa", "ab"},
                                            {"ab", "abc"},
                                            {"abc", "b"},
                                            {"abca", "c"},
                                            {"aab", "ab"},
                                            {"abab", "ba"},
                                            {"cab", "aab", "b"},
                                            {"a", "aaa"},
                                            {"bbb"},
                                            {"abcb", "bcc"},
                                            {"cc", "ccc", "ac"}};
  for (const auto& stops : lists) {
    for (std::size_t size = 0; size <= 6; ++size) {
      std::size_t count = 1;
      for (std::size_t place = 0; place < size; ++place) count *= 3;
      for (std::size_t number = 0; number < count; ++number) {
        std::string text;
        for (std::size_t rest = number; text.size() < size; rest /= 3) text += "abc"[rest % 3];
        const Verdict expected = naive(text, stops);
        const std::uint32_t cuttings = size > 1 ? 1U << (size - 1) : 1U;
        for (std::uint32_t cuts = 0; cuts < cuttings; ++cuts) {
          const Verdict got = in_pieces(text, cuts, stops);
          ASSERT_EQ(got, expected) << text << " cut " << cuts;
        }
      }
    }
  }
}

TEST(StopStrings, NothingOfAStopStringIsLetOut) {
  StopStrings watcher({"</answer>", "\n\nUser:"});
  EXPECT_EQ(watcher.push("a </ans").text, "a ");
  EXPECT_EQ(watcher.push("x").text, "</ansx");
  EXPECT_EQ(watcher.push("\n").text, "");
  EXPECT_EQ(watcher.push("\n").text, "");
  EXPECT_EQ(watcher.push("\n").text, "\n");  // two line breaks may still be the beginning
  const auto outcome = watcher.push("User: hi");
  EXPECT_TRUE(outcome.stopped);
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(watcher.finish(), "");
}

TEST(StopStrings, StopsAsSoonAsTheOutcomeIsSure) {
  StopStrings both({"ab", "abc"});
  EXPECT_TRUE(both.push("xab").stopped);  // whatever follows, the text ends at "x"
  StopStrings nested({"abcd", "c"});
  const auto waiting = nested.push("abc");  // "abcd" may still win and take "ab" along
  EXPECT_FALSE(waiting.stopped);
  EXPECT_EQ(waiting.text, "");
  const auto decided = nested.push("x");
  EXPECT_TRUE(decided.stopped);
  EXPECT_EQ(decided.text, "ab");
}

TEST(StopStrings, CharactersStayWhole) {
  StopStrings watcher({"東京", "😀"});
  EXPECT_EQ(watcher.push("a東").text, "a");
  EXPECT_EQ(watcher.push("北").text, "東北");
  EXPECT_TRUE(watcher.push("😀").stopped);
}

TEST(StopStrings, NoStopStringsHoldNothingBack) {
  StopStrings watcher({});
  EXPECT_EQ(watcher.push("anything").text, "anything");
  EXPECT_EQ(watcher.finish(), "");
  EXPECT_FALSE(watcher.stopped());
}

}  // namespace
}  // namespace reprise::test
