// A thread beside the engine's, for work that runs during a forward pass.
#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace reprise {

// Used by one thread. Its own starts with the first work and sleeps between works.
class SideThread {
 public:
  SideThread() = default;
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;
  ~SideThread();

  // Nothing may be under way. What `work` refers to must live until wait() or the thread's end.
  void start(std::function<void()> work);
  // Until the work is done, if there is one; throws on what it threw (libraries do).
  void wait();

  // Waits at the end of its scope, however that is left; what the work threw is dropped there.
  class WaitAtExit {
   public:
    explicit WaitAtExit(SideThread& thread) : thread_(&thread) {}
    WaitAtExit(const WaitAtExit&) = delete;
    WaitAtExit& operator=(const WaitAtExit&) = delete;
    ~WaitAtExit() { static_cast<void>(thread_->take_thrown()); }

   private:
    SideThread* thread_;
  };

 private:
  void run();
  std::exception_ptr take_thrown();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::function<void()> work_;  // empty: none under way
  std::exception_ptr thrown_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace reprise
