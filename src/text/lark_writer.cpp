// LarkWriter: what rules look like.
#include "text/lark_writer.h"

#include <optional>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr std::size_t kBytesMax = std::size_t{2} << 20;  // as text-ffi compiles

}  // namespace

std::string lark_text(std::string_view text) {
  std::string quoted;
  append_json_text(quoted, text);
  return quoted;
}

std::string lark_escaped(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_plain = byte >= 0x80 || letter == ' ' || letter == '_' || letter == '<' ||
                          letter == '>' || letter == '"' || letter == ':' || letter == ',' ||
                          (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                          (letter >= 'A' && letter <= 'Z');
    if (letter == '\n') {
      escaped += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      escaped += fmt::format("\\x{:02x}", byte);
    } else {
      if (!is_plain) escaped += '\\';
      escaped += letter;
    }
  }
  return escaped;
}

void LarkWriter::rule(std::string_view name, std::string_view body) {
  is_full_ = is_full_ || text_.size() + body.size() > kBytesMax;
  if (!is_full_) text_ += fmt::format("{}: {}\n", name, body);
}

Result<std::string> LarkWriter::take() {
  if (is_full_) {
    return fail(Errc::exhausted,
                fmt::format("schemas whose grammar is larger than {} bytes", kBytesMax));
  }
  return std::move(text_);
}

std::string LarkWriter::new_name(std::string_view stem) {
  return fmt::format("{}_{}", stem, names_++);
}

std::string LarkWriter::new_rule(std::string_view stem, std::string_view body) {
  std::string name = new_name(stem);
  rule(name, body);
  return name;
}

std::string LarkWriter::terminal(std::string_view stem, std::string_view body) {
  if (is_full_) return new_name(stem);
  const auto [place, is_new] = by_body_.try_emplace(std::string(body));
  if (is_new) place->second = new_rule(stem, body);  // a name in capitals makes it a terminal
  return place->second;
}

bool LarkWriter::is_special(std::string_view mark) const {
  if (tokenizer_ == nullptr) return false;
  const std::optional<TokenId> id = tokenizer_->find(mark);
  return id && tokenizer_->is_special(*id);
}

std::string LarkWriter::mark(std::string_view spelling) const {
  if (is_special(spelling)) return fmt::format("<[{}]>", *tokenizer_->find(spelling));
  return lark_text(spelling);
}

// A text, not empty, as a terminal.
std::string LarkWriter::text(std::string_view spelling, const Without& without) {
  std::string body = fmt::format(R"(/[^\x00]{}/)", without.length);
  if (!without.pattern.empty()) body += fmt::format(" & /({})/", without.pattern);
  if (!is_special(spelling)) body += fmt::format(" & ~/(?s:.*){}(?s:.*)/", lark_escaped(spelling));
  if (!without.inside.empty()) body += fmt::format(" & ~/(?s:.*)({})(?s:.*)/", without.inside);
  if (!without.at_start.empty()) body += fmt::format(" & ~/({})(?s:.*)/", without.at_start);
  return terminal("TEXT", body);
}

std::string LarkWriter::up_to(std::string_view spelling, const Without& without, bool must_be) {
  const std::string before =
      fmt::format("{}{} {}", text(spelling, without), must_be ? "" : "?", mark(spelling));
  // One terminal: a text alone would swallow the beginning of the mark.
  return is_special(spelling) ? before : terminal("UP_TO", before);
}

std::string LarkWriter::text_without(std::string_view spelling, const Without& without) {
  return text(spelling, without) + "?";
}

std::string LarkWriter::json(const JsonValue& schema) {
  if (is_full_) return new_name("json");
  const auto [place, is_new] = by_body_.try_emplace("%json " + to_json(schema));
  if (is_new) place->second = new_rule("json", place->first);
  return place->second;
}

}  // namespace reprise
