// Owners take turns, and nobody keeps another out.
#include "api/task_queue.h"

#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace reprise {
namespace {

// Tasks note their names; the first one holds the thread until all are posted.
class TaskQueueTest : public ::testing::Test {
 protected:
  void hold() {
    ASSERT_TRUE(queue_.post("holder", 0, [this] {
      started_.set_value();
      released_.get_future().wait();
    }));
    started_.get_future().wait();
  }
  bool post(const std::string& owner, std::size_t bytes = 1) {
    return queue_.post(owner, bytes, [this, owner] { done_.push_back(owner); });
  }
  std::vector<std::string> run() {
    released_.set_value();
    queue_.finish();
    return done_;
  }

  std::promise<void> started_, released_;
  std::vector<std::string> done_;  // the queue's thread until finish()
  TaskQueue queue_{4, 100};
};

TEST_F(TaskQueueTest, OwnersTakeTurns) {
  hold();
  for (const char* owner : {"a", "a", "a", "b"}) EXPECT_TRUE(post(owner));
  EXPECT_EQ(queue_.load().tasks, 4u);
  EXPECT_EQ(run(), (std::vector<std::string>{"a", "b", "a", "a"}));
  EXPECT_EQ(queue_.load().tasks, 0u);
  EXPECT_EQ(queue_.load().bytes, 0u);
}

TEST_F(TaskQueueTest, AFullQueueStillTakesOneOfWhoHasNone) {
  hold();
  for (int i = 0; i < 4; i++) EXPECT_TRUE(post("a"));
  EXPECT_FALSE(post("a"));
  EXPECT_TRUE(post("b"));
  EXPECT_FALSE(post("b"));
  EXPECT_EQ(run(), (std::vector<std::string>{"a", "b", "a", "a", "a"}));
}

TEST_F(TaskQueueTest, BytesAreBoundedButOneTaskIsAlwaysTaken) {
  hold();
  EXPECT_TRUE(post("a", 1000));
  EXPECT_FALSE(post("a", 1));
  EXPECT_TRUE(post("b", 1000));
  EXPECT_EQ(queue_.load().bytes, 2000u);
  EXPECT_EQ(run().size(), 2u);
}

}  // namespace
}  // namespace reprise
