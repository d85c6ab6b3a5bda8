// Whether the reader of a stream keeps up with it. No sockets and no clock of its own: the
// connection says what happened and when.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>

namespace reprise {

// A stream is made at its own pace, so what its reader leaves must be bounded; but one event alone
// can be larger than any bound (a prompt's logprobs), and it takes its time on the way. So what
// counts is growth: while more than `bytes_max` waits, every period of `grace` must end with no
// more than it began with. The largest event of a period does not count against a reader that
// fetched something in it. What a reader that fetches nothing can hold is therefore `bytes_max`,
// the event that went beyond it and what is made in one `grace`.
class FetchWatch {
 public:
  using Clock = std::chrono::steady_clock;

  FetchWatch(std::size_t bytes_max, Clock::duration grace) : bytes_max_(bytes_max), grace_(grace) {}

  // An event came in.
  void add(std::size_t event_bytes) {
    added_ += event_bytes;
    largest_ = std::max(largest_, event_bytes);
  }

  // Regularly, with the bytes that the client has not fetched. True: it must be cut off.
  bool is_behind(std::size_t waiting, Clock::time_point now) {
    if (waiting <= bytes_max_) {
      is_over_ = false;
      return false;
    }
    if (is_over_ && now - begin_ < grace_) return false;
    const bool was_over = is_over_;
    const bool has_fetched = waiting < waiting_at_begin_ + added_;
    const std::size_t allowed = waiting_at_begin_ + (has_fetched ? largest_ : 0);
    is_over_ = true;
    begin_ = now;
    waiting_at_begin_ = waiting;
    added_ = 0;
    largest_ = 0;
    return was_over && waiting > allowed;
  }

 private:
  std::size_t bytes_max_;
  Clock::duration grace_;
  bool is_over_ = false;
  // Of the period that runs while is_over_:
  Clock::time_point begin_;
  std::size_t waiting_at_begin_ = 0;
  std::size_t added_ = 0;
  std::size_t largest_ = 0;
};

}  // namespace reprise
