// A thread beside the engine's, for work that runs during a forward pass.
#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace reprise {

// Used by one thread, outlives its works. Its own starts with the first work and sleeps between
// works.
class SideThread {
 public:
  SideThread() = default;
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;
  ~SideThread();

  // Work that was started, or none. Its end of scope, however that is left, waits for it too; what
  // the work threw is dropped there.
  class [[nodiscard]] Work {
   public:
    Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work();
    // Until it is done; throws on what it threw (libraries do).
    void wait();

   private:
    friend SideThread;
    explicit Work(SideThread& thread) : thread_(&thread) {}
    std::exception_ptr take_thrown();

    SideThread* thread_ = nullptr;  // null: nothing is under way
  };

  // Nothing may be under way. What `work` refers to must live until it is done.
  Work start(std::function<void()> work);

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
