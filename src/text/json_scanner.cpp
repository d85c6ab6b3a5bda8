// The grammar of RFC 8259 as a state machine; containers are bits of one word.
#include "text/json_scanner.h"

#include "base/json.h"

namespace reprise {
namespace {

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

bool is_hex(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

static_assert(JsonLimits{}.depth_max <= 64);  // bits of the scanner's word

}  // namespace

JsonScanner::Step JsonScanner::push(char byte) {
  switch (state_) {
    case State::text:
    case State::escape:
    case State::hex:
      return in_text(byte);
    case State::word:
      return in_word(byte);
    case State::minus:
    case State::zero:
    case State::digits:
    case State::point:
    case State::fraction:
    case State::exponent:
    case State::exponent_sign:
    case State::exponent_digits:
      return in_number(byte);
    default:
      break;
  }
  if (is_json_space(byte)) return depth_ == 0 ? Step::failed : Step::more;
  switch (state_) {
    case State::first_item:
      if (byte == ']') return close(false);
      return begin_value(byte);
    case State::first_key:
      if (byte == '}') return close(true);
      [[fallthrough]];
    case State::key:
      if (byte != '"') return Step::failed;
      is_key_ = true;
      state_ = State::text;
      return Step::more;
    case State::colon:
      if (byte != ':') return Step::failed;
      state_ = State::value;
      return Step::more;
    case State::separator:
      if (byte == '}' || byte == ']') return close(byte == '}');
      if (byte != ',') return Step::failed;
      state_ = in_object() ? State::key : State::value;
      return Step::more;
    default:
      return begin_value(byte);
  }
}

JsonScanner::Step JsonScanner::begin_value(char byte) {
  is_key_ = false;
  if (byte == '{' || byte == '[') return open(byte == '{');
  if (byte == '"') {
    state_ = State::text;
    return Step::more;
  }
  if (depth_ == 0) return Step::failed;
  if (byte == '-' || is_digit(byte)) {
    state_ = byte == '-' ? State::minus : byte == '0' ? State::zero : State::digits;
    return Step::more;
  }
  state_ = State::word;
  for (const std::string_view word : {"true", "false", "null"}) {
    if (word.front() != byte) continue;
    word_left_ = word.substr(1);
    return Step::more;
  }
  return Step::failed;
}

JsonScanner::Step JsonScanner::in_text(char byte) {
  if (state_ == State::hex) {
    if (!is_hex(byte)) return Step::failed;
    if (--hex_left_ == 0) state_ = State::text;
    return Step::more;
  }
  if (state_ == State::escape) {
    constexpr std::string_view kEscapes = "\"\\/bfnrtu";
    if (kEscapes.find(byte) == std::string_view::npos) return Step::failed;
    state_ = byte == 'u' ? State::hex : State::text;
    hex_left_ = 4;
    return Step::more;
  }
  if (byte == '\\') {
    state_ = State::escape;
    return Step::more;
  }
  if (static_cast<unsigned char>(byte) < 0x20) return Step::failed;
  if (byte != '"') return Step::more;
  if (!is_key_) return end_value();
  state_ = State::colon;
  return Step::more;
}

JsonScanner::Step JsonScanner::in_number(char byte) {
  const bool digit = is_digit(byte);
  switch (state_) {
    case State::minus:
      state_ = byte == '0' ? State::zero : State::digits;
      return digit ? Step::more : Step::failed;
    case State::point:
      state_ = State::fraction;
      return digit ? Step::more : Step::failed;
    case State::exponent:
      state_ = digit ? State::exponent_digits : State::exponent_sign;
      return digit || byte == '+' || byte == '-' ? Step::more : Step::failed;
    case State::exponent_sign:
      state_ = State::exponent_digits;
      return digit ? Step::more : Step::failed;
    case State::exponent_digits:
      return digit ? Step::more : end_number(byte);
    default:  // zero, digits, fraction
      break;
  }
  if (digit) return state_ == State::zero ? Step::failed : Step::more;
  if (byte == '.' && state_ != State::fraction) {
    state_ = State::point;
    return Step::more;
  }
  if (byte == 'e' || byte == 'E') {
    state_ = State::exponent;
    return Step::more;
  }
  return end_number(byte);
}

// A number ends with the byte behind it, which is the container's.
JsonScanner::Step JsonScanner::end_number(char byte) {
  state_ = State::separator;
  return push(byte);
}

JsonScanner::Step JsonScanner::in_word(char byte) {
  if (word_left_.front() != byte) return Step::failed;
  word_left_.remove_prefix(1);
  return word_left_.empty() ? end_value() : Step::more;
}

JsonScanner::Step JsonScanner::open(bool is_object) {
  if (depth_ == static_cast<int>(JsonLimits{}.depth_max)) return Step::failed;
  const std::uint64_t bit = std::uint64_t{1} << depth_;
  objects_ = is_object ? objects_ | bit : objects_ & ~bit;
  ++depth_;
  state_ = is_object ? State::first_key : State::first_item;
  return Step::more;
}

JsonScanner::Step JsonScanner::close(bool is_object) {
  if (depth_ == 0 || in_object() != is_object) return Step::failed;
  --depth_;
  return end_value();
}

JsonScanner::Step JsonScanner::end_value() {
  state_ = State::separator;
  return depth_ == 0 ? Step::done : Step::more;
}

}  // namespace reprise
