// A call written as a JSON object (hermes, Llama 3): a part of the reply parsers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/call_reader.h"
#include "text/json_scanner.h"

namespace reprise {

// {"name": "f", "arguments": {...}}, "parameters" for "arguments", the members in any order, and
// beside them "type" and "id", which are passed over. Without arguments: {}, or (`wants_arguments`)
// no call. The arguments come out as they are written.
class JsonCallReader : public CallReader {
 public:
  explicit JsonCallReader(bool wants_arguments) : wants_arguments_(wants_arguments) {}
  Step push(char byte) override;

 private:
  enum class Place : std::uint8_t { start, first_key, key, in_key, colon, value, in_value, next };
  enum class Member : std::uint8_t { name, arguments, ignored };

  Step begin_key(char byte);
  Step in_key(char byte);
  Step begin_value(char byte);
  Step in_value(char byte);
  Step end_object();

  bool wants_arguments_;
  bool has_arguments_ = false;
  Place place_ = Place::start;
  Member member_ = Member::ignored;
  JsonScanner scanner_;
  std::string text_;  // of the key or name that is being read, with its quotes
};

}  // namespace reprise
