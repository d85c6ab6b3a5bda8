// Lines, fields, and the empty line that ends an event.
#include "http/event_splitter.h"

#include <utility>

namespace reprise {

bool EventSplitter::feed(std::string_view bytes, const OnEvent& on_event) {
  for (const char byte : bytes) {
    const bool ends_pair = std::exchange(after_carriage_return_, byte == '\r') && byte == '\n';
    if (ends_pair) continue;
    if (byte != '\r' && byte != '\n') {
      line_ += byte;
      continue;
    }
    const std::string line = std::exchange(line_, {});
    if (!take_line(line, on_event)) return false;
  }
  return true;
}

bool EventSplitter::take_line(std::string_view line, const OnEvent& on_event) {
  if (line.empty()) {
    const std::string name = std::exchange(name_, {});
    const std::string data = std::exchange(data_, {});
    return !std::exchange(has_data_, false) || on_event(name, data);
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);  // empty: a comment
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") name_ = value;
  if (field == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  return true;
}

}  // namespace reprise
