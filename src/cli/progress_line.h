// A percentage on stderr for people who wait.
#pragma once
#include <chrono>
#include <cstddef>
#include <string>

namespace reprise {

// On a terminal it rewrites its own line; in a log it says a quarter at a time, where the log's
// level is info or more. Nothing is written by the destructor.
class ProgressLine {
 public:
  enum class Log : bool { silent, quarters };
  // `what` goes before the number; a wait shorter than `patience` shows nothing on a terminal.
  ProgressLine(std::string what, std::string unit, Log log,
               std::chrono::milliseconds patience = std::chrono::milliseconds(0));

  void show(std::size_t done, std::size_t total);
  // Takes the line away again, where it can be.
  void clear();

 private:
  std::string what_, unit_;
  Log log_;
  bool is_terminal_;
  std::chrono::steady_clock::time_point visible_from_;
  int shown_ = -1;  // percent
  std::size_t width_ = 0;
};

// Text to stderr. What cannot be written there is lost: no reason to fail.
void write_stderr(const std::string& text);

}  // namespace reprise
