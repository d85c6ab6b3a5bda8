// Handlers that touch nothing but descriptors and the terminal's settings.
#include "cli/terminal_session.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace reprise {
namespace {

constexpr int kSignals[] = {SIGINT, SIGWINCH, SIGTSTP, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::string_view kPasteOn = "\x1b[?2004h";
constexpr std::string_view kPasteOff = "\x1b[?2004l";

// What the handlers may touch.
struct Handled {
  volatile std::sig_atomic_t input = -1, output = -1, notes = -1;
  volatile std::sig_atomic_t marks_pastes = 0;
  termios settings = {};  // the terminal's own
};
Handled handled;

void put(int descriptor, std::string_view text) {
  [[maybe_unused]] const ssize_t lost = ::write(descriptor, text.data(), text.size());
}

void note(int number) {
  const char byte = static_cast<char>(number);
  put(handled.notes, {&byte, 1});
}

// Stops as every program does, with the terminal as it was, and takes it back when it goes on.
void stop_and_go_on() {
  termios now = {};
  const bool known = ::tcgetattr(handled.input, &now) == 0;
  ::tcsetattr(handled.input, TCSANOW, &handled.settings);
  if (handled.marks_pastes != 0) put(handled.output, kPasteOff);
  ::raise(SIGSTOP);
  if (known) ::tcsetattr(handled.input, TCSANOW, &now);
  if (handled.marks_pastes != 0) put(handled.output, kPasteOn);
  note(SIGWINCH);
}

void on_signal(int number) {
  const int error = errno;
  if (number == SIGINT || number == SIGWINCH) {
    note(number);
  } else if (number == SIGTSTP) {
    stop_and_go_on();
  } else {  // its handler is gone: it ends the process when this one returns
    ::tcsetattr(handled.input, TCSANOW, &handled.settings);
    if (handled.marks_pastes != 0) put(handled.output, kPasteOff);
    ::raise(number);
  }
  errno = error;
}

}  // namespace

TerminalSession::TerminalSession(int input, int output) : input_(input), output_(output) {
  ::tcgetattr(input, &settings_);
  if (::pipe2(pipe_, O_NONBLOCK | O_CLOEXEC) != 0) pipe_[0] = pipe_[1] = -1;
  handled.settings = settings_;
  handled.marks_pastes = 0;
  handled.input = input;
  handled.output = output;
  handled.notes = pipe_[1];
  for (const int number : kSignals) {
    struct sigaction action = {}, former = {};
    action.sa_handler = on_signal;
    const bool is_deadly = number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    action.sa_flags = SA_RESTART;  // stdio would take an interrupted write for a failed one
    if (is_deadly) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    ::sigaction(number, nullptr, &former);
    if (former.sa_handler == SIG_IGN) continue;
    ::sigaction(number, &action, nullptr);
    former_.push_back({number, former});
  }
}

TerminalSession::~TerminalSession() {
  mark_pastes(false);
  ::tcsetattr(input_, TCSADRAIN, &settings_);
  for (const Former& former : former_) ::sigaction(former.number, &former.action, nullptr);
  handled.notes = -1;
  for (const int end : pipe_) {
    if (end >= 0) ::close(end);
  }
}

int TerminalSession::take_notice() {
  char byte = 0;
  return ::read(pipe_[0], &byte, 1) == 1 ? byte : 0;
}

void TerminalSession::forget_notices() {
  while (take_notice() != 0) {
  }
}

void TerminalSession::mark_pastes(bool wanted) {
  if (wanted == (handled.marks_pastes != 0)) return;
  handled.marks_pastes = wanted ? 1 : 0;
  put(output_, wanted ? kPasteOn : kPasteOff);
}

}  // namespace reprise
