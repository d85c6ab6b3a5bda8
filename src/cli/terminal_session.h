// A conversation's hold on the terminal: its settings, and the signals that keys and windows send.
#pragma once
#include <csignal>
#include <termios.h>
#include <vector>

namespace reprise {

// While it lives, SIGINT ends nothing: it is noted for who waits at notices(). Signals that end or
// stop the process give the terminal its settings back first. One at a time; signals that were
// ignored at its start stay ignored.
class TerminalSession {
 public:
  // Of two open descriptors of the terminal: what is typed, what is shown.
  TerminalSession(int input, int output);
  ~TerminalSession();
  TerminalSession(const TerminalSession&) = delete;
  TerminalSession& operator=(const TerminalSession&) = delete;

  int input() const { return input_; }
  // Becomes readable when a signal was noted. take_notice() gives its number: SIGINT, or SIGWINCH
  // when the picture must be drawn anew; 0: none.
  int notices() const { return pipe_[0]; }
  int take_notice();
  void forget_notices();

  // Whether the terminal marks pasted text (CSI ? 2004, "bracketed paste").
  void mark_pastes(bool wanted);

 private:
  struct Former {
    int number;
    struct sigaction action;
  };
  int input_, output_;
  int pipe_[2] = {-1, -1};
  termios settings_ = {};
  std::vector<Former> former_;
};

}  // namespace reprise
