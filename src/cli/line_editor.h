// What people type at a prompt, with the keys that they expect: libedit (BSD) over a
// TerminalSession.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace reprise {

// Arrows, history of the session, UTF-8, lines of any length. A paste is one text, whatever lines
// it has; Alt-Enter, and Enter behind a backslash, begin another line.
class LineEditor {
  struct State;

 public:
  // Null where stdin is no terminal, or neither stdout nor stderr is one to draw on, or TERM says
  // that the terminal edits by itself.
  static std::unique_ptr<LineEditor> open();
  explicit LineEditor(std::unique_ptr<State> state);  // for open()
  ~LineEditor();

  enum class Event : std::uint8_t {
    line,
    interrupted,  // Ctrl-C; `text` is what had been typed
    end,          // Ctrl-D at the beginning, or the terminal is gone
  };
  struct Input {
    Event event = Event::end;
    std::string text;  // UTF-8, without the last line end
  };
  // Shows the prompt and waits. Ctrl-C that was pressed before is not an answer to it.
  Input read();
  void say(const std::string& text);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace reprise
