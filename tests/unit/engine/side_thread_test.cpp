// The thread beside the engine's: works in order, waits, what is thrown comes out at the wait.
#include "engine/side_thread.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(SideThread, RunsOneWorkAfterAnotherOnAThreadOfItsOwn) {
  SideThread side;
  SideThread::Work().wait();  // nothing is under way
  int sum = 0;
  std::thread::id first;
  for (int i = 1; i <= 1000; i++) {
    SideThread::Work work = side.start([&, i] {
      sum += i;
      if (i == 1) first = std::this_thread::get_id();
      EXPECT_EQ(std::this_thread::get_id(), first);
    });
    work.wait();
    ASSERT_EQ(sum, i * (i + 1) / 2);
  }
  EXPECT_NE(first, std::this_thread::get_id());
}

TEST(SideThread, TellsWhatWasThrownOnce) {
  SideThread side;
  const auto start_throwing = [&] {
    return side.start([] { static_cast<void>(std::stoi("no number")); });
  };
  {
    SideThread::Work work = start_throwing();
    EXPECT_THROW(work.wait(), std::invalid_argument);
    work.wait();
  }
  {
    const SideThread::Work dropped = start_throwing();
  }
  SideThread::Work next = side.start([] {});
  next.wait();
}

TEST(SideThread, AScopeThatIsLeftWaitsForItsWork) {
  SideThread side;
  int done = 0;  // not atomic: the wait is what makes it safe to read
  for (int i = 0; i < 200; i++) {
    const auto leave = [&] {
      const SideThread::Work work = side.start([&] {
        std::this_thread::yield();
        done++;
      });
      static_cast<void>(std::stoi("no number"));
    };
    EXPECT_THROW(leave(), std::invalid_argument);
    ASSERT_EQ(done, i + 1);
  }
}

}  // namespace
}  // namespace reprise
