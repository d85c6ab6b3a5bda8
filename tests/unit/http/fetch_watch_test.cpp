// When the reader of a stream counts as one that does not fetch it.
#include "http/fetch_watch.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMost = 1000;

// A stream that is looked at every 100 ms, with a grace of a second.
class Stream {
 public:
  // What happens from one look to the next; true: cut off.
  bool step(std::size_t event, std::size_t fetched) {
    if (event > 0) watch_.add(event);
    waiting_ = waiting_ + event - std::min(waiting_ + event, fetched);
    now_ += milliseconds(100);
    return watch_.is_behind(waiting_, now_);
  }
  // The same again and again: how many steps until it is cut off; -1: not in `most`.
  int steps_until_cut(std::size_t event, std::size_t fetched, int most) {
    for (int i = 1; i <= most; ++i) {
      if (step(event, fetched)) return i;
    }
    return -1;
  }
  std::size_t waiting() const { return waiting_; }

 private:
  FetchWatch watch_{kMost, milliseconds(1000)};
  FetchWatch::Clock::time_point now_;
  std::size_t waiting_ = 0;
};

TEST(FetchWatch, AReaderThatTakesNothingIsCutOneGraceAfterTheLimit) {
  Stream stream;
  EXPECT_EQ(stream.steps_until_cut(100, 0, 1000), 21);  // the eleventh event goes beyond the limit
  EXPECT_EQ(stream.waiting(), 2100u);
}

TEST(FetchWatch, NothingHappensUpToTheLimit) {
  Stream stream;
  EXPECT_FALSE(stream.step(kMost, 0));
  EXPECT_EQ(stream.steps_until_cut(0, 0, 1000), -1);
  EXPECT_EQ(stream.steps_until_cut(100, 100, 1000), -1);
}

TEST(FetchWatch, AnEventBeyondTheLimitIsNoFault) {
  Stream stream;
  EXPECT_FALSE(stream.step(100 * kMost, 0));
  EXPECT_EQ(stream.steps_until_cut(0, 0, 1000), -1);  // nothing more is made: nothing grows
  EXPECT_EQ(stream.steps_until_cut(10, 11, 1000), -1);
  EXPECT_EQ(stream.steps_until_cut(10, 0, 1000), 10);  // at the end of the period
}

TEST(FetchWatch, LargeEventsAreNoneWhoeverFetches) {
  Stream stream;
  for (int i = 0; i < 20; ++i) {
    ASSERT_FALSE(stream.step(30 * kMost, kMost));
    ASSERT_EQ(stream.steps_until_cut(10, 1600, 20), -1) << i;
  }
  Stream stalled;
  EXPECT_FALSE(stalled.step(30 * kMost, 0));
  EXPECT_EQ(stalled.steps_until_cut(30 * kMost, 0, 1000), 10);
}

TEST(FetchWatch, AReaderThatFallsBehindForEverIsCut) {
  Stream stream;
  EXPECT_GT(stream.steps_until_cut(100, 50, 1000), 20);
  EXPECT_LT(stream.waiting(), 3 * kMost);
}

TEST(FetchWatch, FallingBelowTheLimitForgives) {
  Stream stream;
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(stream.step(500, 0));
    ASSERT_FALSE(stream.step(700, 0));
    ASSERT_EQ(stream.steps_until_cut(100, 0, 8), -1);
    ASSERT_FALSE(stream.step(0, 2000));
  }
}

}  // namespace
}  // namespace reprise
