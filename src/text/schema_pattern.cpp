// What patterns may have: llguidance reads them as Rust's regular expressions, schemas mean
// ECMAScript's.
#include "text/schema_pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
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

// Of a class of characters: what llguidance's quoting of JSON is about.
struct ClassFacts {
  bool has_nul = false;
  bool has_quote = false;
  bool has_backslash = false;
  bool has_property = false;  // \p or \P, of which the rest is known in part only

  void add(std::uint32_t first, std::uint32_t last) {
    const auto holds = [&](std::uint32_t letter) { return first <= letter && letter <= last; };
    has_nul = has_nul || holds(0);
    has_quote = has_quote || holds('"');
    has_backslash = has_backslash || holds('\\');
  }
  void add(const ClassFacts& other) {
    has_nul = has_nul || other.has_nul;
    has_quote = has_quote || other.has_quote;
    has_backslash = has_backslash || other.has_backslash;
    has_property = has_property || other.has_property;
  }
  // What has NUL may have all control characters, which llguidance takes for having these, too.
  bool is_misread() const { return has_nul && !(has_quote && has_backslash); }
};

ClassFacts everything() {
  return {.has_nul = true, .has_quote = true, .has_backslash = true, .has_property = false};
}

// Of \p{name}, which has NUL or not; quotes are said to be missing where that is not known.
ClassFacts property_facts(std::string_view name, bool is_negated) {
  std::string plain;
  for (const char letter : name.substr(std::min(name.find_first_of(":=") + 1, name.size()))) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0)
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  constexpr auto kWithNul = std::to_array<std::string_view>(
      {"any", "ascii", "assigned", "c", "cc", "cntrl", "common", "control", "other", "xx", "zyyy"});
  constexpr auto kWithQuotes =
      std::to_array<std::string_view>({"any", "ascii", "assigned", "common", "zyyy"});
  ClassFacts facts = {.has_nul = std::ranges::find(kWithNul, plain) != kWithNul.end()};
  facts.has_quote = std::ranges::find(kWithQuotes, plain) != kWithQuotes.end();
  if (is_negated) {
    facts.has_nul = !facts.has_nul;
    // Punctuation has the quote and the backslash.
    facts.has_quote = !facts.has_quote && !plain.starts_with('p');
  }
  facts.has_backslash = facts.has_quote;
  facts.has_property = true;
  return facts;
}

class PatternScanner {
 public:
  explicit PatternScanner(std::string_view text) : text_(text) {}

  // The pattern as it is to be read.
  Result<std::string> scan() {
    while (at_ < text_.size()) TRY(step());
    return made_ + std::string(text_.substr(copied_));
  }

 private:
  std::unexpected<Error> refuse(Errc code, std::string_view what) const {
    return fail(code, fmt::format("pattern: {} at byte {}", what, at_));
  }
  std::unexpected<Error> refuse(std::string_view what) const {
    return refuse(Errc::unsupported, fmt::format("{} is not supported,", what));
  }

  // The letter so far behind; 0 past the end.
  char peek(std::size_t ahead) const { return peek_at(at_ + ahead); }
  char peek_at(std::size_t place) const { return place < text_.size() ? text_[place] : 0; }

  Status step() {
    switch (text_[at_]) {
      case '\\':
        can_repeat_ = true;
        return escape_alone();
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
      case '\0':
        return refuse("NUL");
      default:
        can_repeat_ = true;
    }
    at_++;
    return {};
  }

  Status escape_alone() {
    const std::size_t begin = at_;
    TRY(escape());
    if (!facts_of_escape(text_.substr(begin, at_ - begin)).is_misread()) return {};
    at_ = begin;
    return refuse("what has control characters, but no quotes or backslashes");
  }

  // Of an escape that is one; of one letter: its number.
  static ClassFacts facts_of_escape(std::string_view escaped) {
    if (escaped.size() < 2) return {};
    const char kind = escaped[1];
    if (kind == 'D' || kind == 'W' || kind == 'S') return everything();
    if (kind == 'd' || kind == 'w' || kind == 's') return {};
    if (kind == 'p' || kind == 'P') return property_facts(escaped.substr(2), kind == 'P');
    ClassFacts facts;
    const std::uint32_t letter = letter_of_escape(escaped);
    facts.add(letter, letter);
    return facts;
  }

  static std::uint32_t letter_of_escape(std::string_view escaped) {
    constexpr std::string_view kNames = "ntrvf", kLetters = "\n\t\r\v\f";
    const char kind = escaped[1];
    if (const std::size_t found = kNames.find(kind); found != std::string_view::npos)
      return static_cast<unsigned char>(kLetters[found]);
    if (kind != 'x' && kind != 'u') return static_cast<unsigned char>(kind);
    std::string_view digits = escaped.substr(2);
    if (digits.starts_with('{')) digits = digits.substr(1, digits.size() - 2);
    std::uint32_t letter = 0x10ffff;
    std::from_chars(digits.begin(), digits.end(), letter, 16);
    return letter;
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
    const std::size_t begin = at_;
    const bool is_negated = peek(1) == '^';
    at_ += is_negated ? 2 : 1;
    if (peek(0) == ']') return refuse("an empty class");
    ClassFacts facts;
    while (at_ < text_.size() && text_[at_] != ']') TRY(class_member(facts));
    at_ = std::min(at_ + 1, text_.size());
    if (is_negated) {
      if (!facts.has_quote && !facts.has_backslash && !facts.has_property) return {};
      made_ += text_.substr(copied_, begin + 2 - copied_);
      made_ += R"(\x00)";
      if (peek_at(begin + 2) == '-') made_ += '\\';  // a letter still, no range
      copied_ = begin + 2;
    } else if (facts.is_misread()) {
      at_ = begin;
      return refuse("a class of control characters without the quote and the backslash");
    }
    return {};
  }

  // One letter, an escape, or a range.
  Status class_member(ClassFacts& facts) {
    const std::size_t begin = at_;
    TRY_ASSIGN(const std::uint32_t first, class_letter());
    const std::string_view member = text_.substr(begin, at_ - begin);
    if (is_set(member)) {
      facts.add(facts_of_escape(member));
      return {};
    }
    std::uint32_t last = first;
    if (peek(0) == '-' && peek(1) != ']' && peek(1) != '-' && at_ + 1 < text_.size()) {
      at_++;
      TRY_ASSIGN(last, class_letter());
    }
    facts.add(first, last);
    return {};
  }

  static bool is_set(std::string_view member) {
    return member.size() > 1 && member[0] == '\\' &&
           std::string_view("dDwWsSpP").find(member[1]) != std::string_view::npos;
  }

  // Its number; of letters beyond ASCII only that it is beyond.
  Result<std::uint32_t> class_letter() {
    const std::size_t begin = at_;
    const char letter = text_[at_];
    if (letter == '\\') {
      TRY(escape());
      return letter_of_escape(text_.substr(begin, at_ - begin));
    }
    if (letter == '[') return refuse("\"[\" within a class");
    if ((letter == '&' || letter == '-' || letter == '~') && peek(1) == letter)
      return refuse(fmt::format("\"{}{}\" within a class", letter, letter));
    at_++;
    while ((static_cast<unsigned char>(peek(0)) & 0xc0) == 0x80) at_++;
    return static_cast<unsigned char>(letter);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool can_repeat_ = false;
  std::vector<bool> has_anchor_;  // of the groups that are open
  std::string made_;              // what is read, up to copied_
  std::size_t copied_ = 0;
};

}  // namespace

Result<std::string> check_pattern(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax) {
    return fail(Errc::exhausted, fmt::format("a pattern of {} bytes, expected at most {}",
                                             pattern.size(), kPatternBytesMax));
  }
  return PatternScanner(pattern).scan();
}

}  // namespace reprise
