// What patterns may have: llguidance reads them as Rust's regular expressions, schemas mean
// ECMAScript's.
#include "text/schema_pattern.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr std::size_t kPatternBytesMax = 4096;
constexpr std::size_t kGroupsDepthMax = 50;

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

bool is_hex_digit(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'f') || (letter >= 'A' && letter <= 'F');
}

bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

class PatternScanner {
 public:
  explicit PatternScanner(std::string_view text) : text_(text) {}

  Status scan() {
    while (at_ < text_.size()) TRY(step());
    return {};
  }

 private:
  std::unexpected<Error> refuse(Errc code, std::string_view what) const {
    return fail(code, fmt::format("pattern: {} at byte {}", what, at_));
  }
  std::unexpected<Error> refuse(std::string_view what) const {
    return refuse(Errc::unsupported, fmt::format("{} is not supported,", what));
  }

  // The letter so far behind; 0 past the end.
  char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }

  Status step() {
    switch (text_[at_]) {
      case '\\':
        can_repeat_ = true;
        return escape();
      case '[':
        can_repeat_ = true;
        return character_class();
      case '(':
        return open_group();
      case ')':
        close_group();
        break;
      case '^':
      case '$':
        if (!has_anchor_.empty()) has_anchor_.back() = true;
        can_repeat_ = false;
        break;
      case '|':
        can_repeat_ = false;
        break;
      case '*':
      case '+':
      case '?':
      case '{':
        return quantifier();
      default:
        can_repeat_ = true;
    }
    at_++;
    return {};
  }

  // Rust would let anchors, alternatives and quantifiers be repeated, in ways of its own.
  Status quantifier() {
    if (!can_repeat_) {
      return refuse(Errc::invalid_argument,
                    fmt::format("\"{}\" with nothing that it could repeat", text_[at_]));
    }
    std::size_t size = 1;
    if (text_[at_] == '{') {
      const auto skip_digits = [&] {
        const std::size_t begin = size;
        while (is_digit(peek(size))) size++;
        return size > begin;
      };
      const bool has_count = skip_digits();
      if (has_count && peek(size) == ',') {
        size++;
        skip_digits();
      }
      if (!has_count || peek(size) != '}')
        return refuse(Errc::invalid_argument, "\"{\" without counts like {2} or {1,3}");
      size++;
    }
    at_ += size;
    if (peek(0) == '?') at_++;
    can_repeat_ = false;
    return {};
  }

  Status open_group() {
    std::size_t size = 1;
    if (peek(1) == '?') {
      const std::size_t name = peek(2) == 'P' && peek(3) == '<' ? 4 : peek(2) == '<' ? 3 : 0;
      if (peek(2) == ':') {
        size = 3;
      } else if (name > 0 && is_name_letter(peek(name))) {
        // To llguidance a group of this name is another thing.
        if (text_.substr(at_ + name).starts_with("stop>")) return refuse("a group named stop");
        size = name;
        while (is_name_letter(peek(size))) size++;
        if (peek(size) == '>') size++;
      } else {
        const char kind = peek(name == 3 ? 3 : 2);  // behind "(?<" or "(?"
        if (kind == '=' || kind == '!') return refuse("look-around");
        if (name == 0 && std::string_view("-imsux").contains(kind)) return refuse("a group's flag");
        return refuse(Errc::invalid_argument, "\"(?\" without a group's kind");
      }
    }
    if (has_anchor_.size() == kGroupsDepthMax) {
      return refuse(Errc::exhausted, fmt::format("more than {} nested groups", kGroupsDepthMax));
    }
    has_anchor_.push_back(false);
    can_repeat_ = false;
    at_ += size;
    return {};
  }

  static bool is_name_letter(char letter) {
    return is_letter(letter) || is_digit(letter) || letter == '_';
  }

  void close_group() {
    if (has_anchor_.empty()) return;  // the compiler says so
    can_repeat_ = !has_anchor_.back();
    has_anchor_.pop_back();
    if (!can_repeat_ && !has_anchor_.empty()) has_anchor_.back() = true;
  }

  Status escape() {
    const char letter = peek(1);
    if (at_ + 1 == text_.size())  // llguidance would drop the backslash
      return refuse(Errc::invalid_argument, "ends within an escape");
    std::size_t size = 2;
    if (letter == 'x' || letter == 'u') {
      const bool is_braced = letter == 'u' && peek(2) == '{';
      const std::size_t digits = letter == 'x' ? 2 : 4;
      if (is_braced) {
        while (is_hex_digit(peek(size + 1))) size++;
        size += 2;
      } else {
        while (size < digits + 2 && is_hex_digit(peek(size))) size++;
        if (size < digits + 2)
          return refuse(fmt::format("\"\\{}\" without {} hexadecimal digits", letter, digits));
      }
    } else if (letter == 'p' || letter == 'P') {
      if (peek(2) != '{') return refuse(fmt::format("\"\\{}\" without braces", letter));
      while (at_ + size < text_.size() && peek(size) != '}') size++;
      size++;
    } else if (letter == 'b' || letter == 'B') {
      return refuse(fmt::format("\"\\{}\"", letter));
    } else if (is_letter(letter) || is_digit(letter) || letter == '<' || letter == '>' ||
               static_cast<unsigned char>(letter) < 0x20 ||
               static_cast<unsigned char>(letter) > 0x7e) {
      constexpr std::string_view kKnown = "dDwWsStnrvf";
      if (kKnown.find(letter) == std::string_view::npos) {
        const bool is_plain = static_cast<unsigned char>(letter) > 0x20 && letter > 0;
        return refuse(is_plain ? fmt::format("the escape \"\\{}\"", letter) : "this escape");
      }
    }
    at_ = std::min(at_ + size, text_.size());
    return {};
  }

  // What Rust has of its own are sets within sets, differences and intersections.
  Status character_class() {
    at_ += peek(1) == '^' ? 2 : 1;
    if (peek(0) == ']') return refuse("an empty class");
    while (at_ < text_.size() && text_[at_] != ']') {
      const char letter = text_[at_];
      if (letter == '\\') {
        TRY(escape());
        continue;
      }
      if (letter == '[') return refuse("\"[\" within a class");
      if ((letter == '&' || letter == '-' || letter == '~') && peek(1) == letter)
        return refuse(fmt::format("\"{}{}\" within a class", letter, letter));
      at_++;
    }
    at_ = std::min(at_ + 1, text_.size());
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool can_repeat_ = false;
  std::vector<bool> has_anchor_;  // of the groups that are open
};

}  // namespace

Status check_pattern(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax) {
    return fail(Errc::exhausted, fmt::format("a pattern of {} bytes, expected at most {}",
                                             pattern.size(), kPatternBytesMax));
  }
  return PatternScanner(pattern).scan();
}

}  // namespace reprise
