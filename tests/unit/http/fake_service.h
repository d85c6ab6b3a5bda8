// A Service without model or engine: each test says what its desk answers.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/service.h"

namespace reprise::test_support {

class FakeDesk {
 public:
  using Answer = std::function<void(ServiceRequest, std::shared_ptr<StreamChannel>)>;

  // Called on the I/O thread. Set before the server runs.
  Answer answer = [](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    push_reply(*channel, 200, "{}");
  };
  std::atomic<int> drains = 0;

  // Runs `work` on a thread of its own, like the engine's; joined at the end.
  void produce(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    producers_.emplace_back(std::move(work));
  }

  static void push_reply(StreamChannel& channel, int status, std::string body);
  static ReplyHead stream_head();

 private:
  std::mutex mutex_;
  std::vector<std::jthread> producers_;
};

// The desk must outlive the service. The double's members are in fake_service.cpp, which takes the
// place of the real room: a test program links one of them.
std::unique_ptr<Service> make_fake_service(FakeDesk& desk, ServiceOptions options = {});

}  // namespace reprise::test_support
