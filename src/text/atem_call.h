// A call as Muse Glimmer writes it: a part of the reply parsers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/call_reader.h"
#include "text/reply_parser.h"

namespace reprise {

// <atem:function_calls> <atem:invoke name="f"> <atem:parameter name="a">1</atem:parameter> ...
// </atem:invoke>, the first tag being there or not. Strings stand bare, so the types of values come
// from the function's schema.
class AtemCallReader : public CallReader {
 public:
  // The options must outlive the reader.
  explicit AtemCallReader(const ReplyParserOptions& options) : options_(&options) {}
  Step push(char byte) override;

 private:
  enum class Place : std::uint8_t { start, name, after_name, body, key, value };

  Step in_start(char byte);
  Step in_name(char byte, std::string& name);
  Step in_body(char byte);
  Step in_value(char byte);
  void take_schema();
  const JsonValue* schema_of(std::string_view key) const;

  const ReplyParserOptions* options_;
  Place place_ = Place::start;
  std::string tag_;  // the tag that is being read
  std::string key_;
  std::string value_;
  bool has_value_ = false;
  JsonValue root_;  // the function's schema; null: none is known
};

// The JSON text of an argument that was written bare, by its schema (null: none is known), a part
// of `root`.
std::string typed_value(std::string_view text, const JsonValue& root, const JsonValue* schema);

}  // namespace reprise
