// GemmaCallReader: Gemma's values to JSON's as they arrive.
#include "text/gemma_call.h"

#include <cctype>

namespace reprise {
namespace {

constexpr std::string_view kPrefix = "call:";
constexpr std::string_view kQuote = "<|\"|>";

bool is_word_byte(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '.' || byte == '-' ||
         byte == '+';
}

}  // namespace

CallReader::Step GemmaCallReader::push(char byte) {
  switch (place_) {
    case Place::prefix:
      return in_prefix(byte);
    case Place::name:
      return in_name(byte);
    case Place::in_key:
      return in_key(byte);
    case Place::scalar:
      return in_scalar(byte);
    case Place::open_quote:
      return in_open_quote(byte);
    case Place::text:
      return in_text(byte);
    case Place::json_text:
      return in_json_text(byte);
    default:
      break;
  }
  if (is_json_space(byte)) return Step::more;
  switch (place_) {
    case Place::first_key:
      if (byte == '}') return close(byte);
      [[fallthrough]];
    case Place::key:
      return begin_key(byte);
    case Place::colon:
      arguments_ += ": ";
      place_ = Place::value;
      return byte == ':' ? Step::more : Step::failed;
    case Place::first_item:
      if (byte == ']') return close(byte);
      return begin_value(byte);
    case Place::next:
      return next(byte);
    default:
      return begin_value(byte);
  }
}

CallReader::Step GemmaCallReader::in_prefix(char byte) {
  if (matched_ == 0 && is_json_space(byte)) return Step::more;
  if (byte != kPrefix[matched_]) return Step::failed;
  if (++matched_ == kPrefix.size()) place_ = Place::name;
  return Step::more;
}

CallReader::Step GemmaCallReader::in_name(char byte) {
  if (byte == '{' && !name_.empty()) {
    has_name_ = true;
    arguments_ = '{';
    place_ = Place::first_key;
    return containers_.open(true) ? Step::more : Step::failed;
  }
  name_ += byte;
  const bool is_name = !is_json_space(byte) && byte != '<' && byte != '{' && byte != '}';
  return is_name && name_.size() <= kNameBytesMax ? Step::more : Step::failed;
}

CallReader::Step GemmaCallReader::begin_key(char byte) {
  if (byte == '<' || byte == '"') return begin_text(byte, true);
  word_.clear();
  place_ = Place::in_key;
  return in_key(byte);
}

CallReader::Step GemmaCallReader::in_key(char byte) {
  if (byte == ':') {
    while (!word_.empty() && is_json_space(word_.back())) word_.pop_back();
    append_json_text(arguments_, word_);
    arguments_ += ": ";
    place_ = Place::value;
    return word_.empty() ? Step::failed : Step::more;
  }
  constexpr std::string_view kNotInKeys = "{}[]<>,\"";
  word_ += byte;
  const bool is_key = kNotInKeys.find(byte) == std::string_view::npos;
  return is_key && word_.size() <= kNameBytesMax ? Step::more : Step::failed;
}

CallReader::Step GemmaCallReader::begin_value(char byte) {
  if (byte == '[' || byte == '{') {
    arguments_ += byte;
    place_ = byte == '{' ? Place::first_key : Place::first_item;
    return containers_.open(byte == '{') ? Step::more : Step::failed;
  }
  if (byte == '<' || byte == '"') return begin_text(byte, false);
  place_ = Place::scalar;
  word_ = byte;
  return is_word_byte(byte) ? Step::more : Step::failed;
}

CallReader::Step GemmaCallReader::begin_text(char byte, bool is_key) {
  is_key_ = is_key;
  if (byte == '"') {
    scanner_ = {};
    place_ = Place::json_text;
    return in_json_text(byte);
  }
  matched_ = 1;
  place_ = Place::open_quote;
  return Step::more;
}

CallReader::Step GemmaCallReader::in_open_quote(char byte) {
  if (byte != kQuote[matched_]) return Step::failed;
  if (++matched_ < kQuote.size()) return Step::more;
  matched_ = 0;
  arguments_ += '"';
  place_ = Place::text;
  return Step::more;
}

CallReader::Step GemmaCallReader::in_text(char byte) {
  if (byte == kQuote[matched_]) {
    if (++matched_ < kQuote.size()) return Step::more;
    arguments_ += '"';
    return end_text();
  }
  // No quote after all. Only its first byte can begin another.
  for (const char held : kQuote.substr(0, matched_)) append_json_byte(arguments_, held);
  matched_ = byte == kQuote.front() ? 1 : 0;
  if (matched_ == 0) append_json_byte(arguments_, byte);
  return Step::more;
}

CallReader::Step GemmaCallReader::in_json_text(char byte) {
  const JsonScanner::Step step = scanner_.push(byte);
  if (step == JsonScanner::Step::failed) return Step::failed;
  arguments_ += byte;
  return step == JsonScanner::Step::done ? end_text() : Step::more;
}

CallReader::Step GemmaCallReader::end_text() {
  place_ = is_key_ ? Place::colon : Place::next;
  return Step::more;
}

// A number or word ends with the byte behind it, which is its container's.
CallReader::Step GemmaCallReader::in_scalar(char byte) {
  if (is_word_byte(byte)) {
    word_ += byte;
    return word_.size() <= kScalarBytesMax ? Step::more : Step::failed;
  }
  if (!append_json_scalar(arguments_, word_)) return Step::failed;
  place_ = Place::next;
  return is_json_space(byte) ? Step::more : next(byte);
}

CallReader::Step GemmaCallReader::next(char byte) {
  if (byte != ',') return close(byte);
  arguments_ += ", ";
  place_ = containers_.in_object() ? Place::key : Place::value;
  return Step::more;
}

CallReader::Step GemmaCallReader::close(char byte) {
  if (byte != (containers_.in_object() ? '}' : ']')) return Step::failed;
  arguments_ += byte;
  containers_.close();
  place_ = Place::next;
  return containers_.depth() == 0 ? Step::done : Step::more;
}

}  // namespace reprise
