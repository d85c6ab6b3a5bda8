// Server-sent events: every cut of the stream gives the same events.
#include "http/event_splitter.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace reprise {
namespace {

std::vector<std::string> events_of(std::string_view stream, std::size_t cut) {
  std::vector<std::string> events;
  EventSplitter splitter;
  const auto take = [&](std::string_view name, std::string_view data) {
    events.push_back(std::string(name) + "|" + std::string(data));
    return true;
  };
  for (std::size_t at = 0; at < stream.size(); at += cut) {
    EXPECT_TRUE(splitter.feed(stream.substr(at, cut), take));
  }
  return events;
}

TEST(EventSplitter, EveryCutAndEveryLineEndGiveTheSameEvents) {
  const std::string stream =
      ": a comment\n\ndata: one\n\ndata:two\ndata\ndata:  three\nid: 7\n\nevent: error\n"
      "data: {\"a\": \"b: c\"}\n\nevent: no data\n\ndata: unfinished";
  const std::vector<std::string> expected = {"|one", "|two\n\n three", "error|{\"a\": \"b: c\"}"};
  for (const std::string_view line_end : {"\n", "\r\n", "\r"}) {
    std::string text;
    for (const char c : stream) text += c == '\n' ? std::string(line_end) : std::string(1, c);
    for (std::size_t cut = 1; cut <= text.size(); ++cut) EXPECT_EQ(events_of(text, cut), expected);
  }
}

TEST(EventSplitter, NothingFollowsARefusal) {
  int calls = 0;
  EventSplitter splitter;
  EXPECT_FALSE(splitter.feed("data: 1\n\ndata: 2\n\n", [&](std::string_view, std::string_view) {
    ++calls;
    return false;
  }));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace reprise
