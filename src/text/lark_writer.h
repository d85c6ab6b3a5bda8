// Writes grammars in llguidance's dialect of Lark: rules, terminals, and the marks of reply
// formats, which are special tokens in some vocabularies and text in others.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace reprise {

// A text as a Lark string literal.
std::string lark_text(std::string_view text);
// A text inside a regular expression between slashes.
std::string lark_escaped(std::string_view text);

// What a text does not have, as regular expressions; how long it is, as "{1,9}"; and what it is as
// a whole.
struct Without {
  std::string_view inside = {};
  std::string_view at_start = {};
  std::string_view length = "+";
  std::string_view pattern = {};
};

class LarkWriter {
 public:
  // Null: all marks are text.
  explicit LarkWriter(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  void rule(std::string_view name, std::string_view body);
  // A new rule; gives its name, which begins with `stem`.
  std::string new_rule(std::string_view stem, std::string_view body);
  // A terminal (a regular expression that the lexer takes as a whole, and as far as it goes): the
  // older one where there is one with this body.
  std::string terminal(std::string_view stem, std::string_view body);
  std::string new_name(std::string_view stem);  // for rules that refer to themselves

  bool is_special(std::string_view mark) const;
  // The mark itself.
  std::string mark(std::string_view spelling) const;
  // Any text up to and with the first mark; maybe none, unless `must_be`.
  std::string up_to(std::string_view spelling, const Without& without = {}, bool must_be = false);
  // Any text, maybe none, without the mark.
  std::string text_without(std::string_view spelling, const Without& without = {});
  // A value by a schema that checked_schema gave.
  std::string json(const JsonValue& schema);

  // Larger than a grammar may be: what comes now is lost, and whoever writes many rules stops.
  bool is_full() const { return is_full_; }
  // Errors: exhausted (full).
  Result<std::string> take();

 private:
  std::string text(std::string_view spelling, const Without& without);

  const Tokenizer* tokenizer_;
  std::string text_;
  bool is_full_ = false;
  std::size_t names_ = 0;
  std::map<std::string, std::string> by_body_;  // names of terminals and schemas
};

}  // namespace reprise
