// Server-sent events out of bytes as they arrive: https://html.spec.whatwg.org section 9.2.6.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace reprise {

class EventSplitter {
 public:
  // Called once an event is complete: its name (empty: "message") and its data, lines joined by
  // '\n'. False: nothing more is wanted.
  using OnEvent = std::function<bool(std::string_view name, std::string_view data)>;

  // `bytes`: the next ones of the stream, cut anywhere. Returns false once `on_event` has.
  bool feed(std::string_view bytes, const OnEvent& on_event);

 private:
  bool take_line(std::string_view line, const OnEvent& on_event);

  std::string line_;
  bool after_carriage_return_ = false;  // the line feed that may follow belongs to it
  std::string name_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace reprise
