// JsonCallReader: the outer object member by member, each value by a JsonScanner.
#include "text/json_call.h"

namespace reprise {

CallReader::Step JsonCallReader::push(char byte) {
  const bool is_space = is_json_space(byte);
  switch (place_) {
    case Place::in_key:
      return in_key(byte);
    case Place::in_value:
      return in_value(byte);
    default:
      if (is_space) return Step::more;
  }
  switch (place_) {
    case Place::start:
      place_ = Place::first_key;
      return byte == '{' ? Step::more : Step::failed;
    case Place::first_key:
    case Place::key:
      return begin_key(byte);
    case Place::colon:
      place_ = Place::value;
      return byte == ':' ? Step::more : Step::failed;
    case Place::value:
      return begin_value(byte);
    default:  // next
      if (byte == '}') return end_object();
      place_ = Place::key;
      return byte == ',' ? Step::more : Step::failed;
  }
}

CallReader::Step JsonCallReader::begin_key(char byte) {
  if (byte != '"') return Step::failed;  // {} is no call either
  scanner_ = {};
  scanner_.push(byte);
  text_ = byte;
  place_ = Place::in_key;
  return Step::more;
}

CallReader::Step JsonCallReader::in_key(char byte) {
  text_ += byte;
  const JsonScanner::Step step = scanner_.push(byte);
  if (step == JsonScanner::Step::failed || text_.size() > kNameBytesMax) return Step::failed;
  if (step == JsonScanner::Step::more) return Step::more;
  place_ = Place::colon;
  if (text_ == "\"name\"") {
    member_ = Member::name;
    return has_name_ ? Step::failed : Step::more;
  }
  if (text_ == "\"arguments\"" || text_ == "\"parameters\"") {
    member_ = Member::arguments;
    return has_arguments_ ? Step::failed : Step::more;
  }
  member_ = Member::ignored;
  return text_ == "\"type\"" || text_ == "\"id\"" ? Step::more : Step::failed;
}

CallReader::Step JsonCallReader::begin_value(char byte) {
  const bool is_arguments = member_ == Member::arguments;
  if (byte != (is_arguments ? '{' : '"')) return Step::failed;
  has_arguments_ = has_arguments_ || is_arguments;
  scanner_ = {};
  text_.clear();
  place_ = Place::in_value;
  return in_value(byte);
}

CallReader::Step JsonCallReader::in_value(char byte) {
  const JsonScanner::Step step = scanner_.push(byte);
  if (step == JsonScanner::Step::failed) return Step::failed;
  if (member_ == Member::arguments) {
    arguments_ += byte;
  } else {
    text_ += byte;
    if (text_.size() > kNameBytesMax) return Step::failed;
  }
  if (step == JsonScanner::Step::more) return Step::more;
  place_ = Place::next;
  if (member_ != Member::name) return Step::more;
  const auto name = parse_json(text_);
  if (!name || !name->is_string()) return Step::failed;
  name_ = name->get_string();
  has_name_ = true;
  return Step::more;
}

CallReader::Step JsonCallReader::end_object() {
  if (!has_name_) return Step::failed;
  if (has_arguments_) return Step::done;
  arguments_ = "{}";
  return wants_arguments_ ? Step::failed : Step::done;
}

}  // namespace reprise
