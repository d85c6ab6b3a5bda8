// One mutex, one condition: work comes, work is done.
#include "engine/side_thread.h"

#include <system_error>
#include <utility>

#include "base/check.h"

namespace reprise {

SideThread::~SideThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

SideThread::Work SideThread::start(std::function<void()> work) {
  CHECK(work != nullptr);
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {  // the system has none left: the work waits for nobody
      work();
      return {};
    }
  }
  {
    const std::lock_guard lock(mutex_);
    CHECK(work_ == nullptr);
    work_ = std::move(work);
  }
  changed_.notify_all();
  return Work(*this);
}

SideThread::Work::~Work() {
  static_cast<void>(take_thrown());
}

void SideThread::Work::wait() {
  if (const std::exception_ptr thrown = take_thrown()) std::rethrow_exception(thrown);
}

std::exception_ptr SideThread::Work::take_thrown() {
  SideThread* const thread = std::exchange(thread_, nullptr);
  return thread != nullptr ? thread->take_thrown() : nullptr;
}

std::exception_ptr SideThread::take_thrown() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return work_ == nullptr; });
  return std::exchange(thrown_, nullptr);
}

void SideThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return work_ != nullptr || is_stopping_; });
    if (work_ == nullptr) return;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      work_();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    work_ = nullptr;
    thrown_ = std::move(thrown);
    changed_.notify_all();
  }
}

}  // namespace reprise
