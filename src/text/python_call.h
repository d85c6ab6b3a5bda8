// A call written as Python writes it (Llama 4): a part of the reply parsers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/call_reader.h"

namespace reprise {

// name(argument=value, ...). Values are strings, numbers, True, False, None, lists and dicts with
// strings as keys; JSON's words are understood too.
class PythonCallReader : public CallReader {
 public:
  Step push(char byte) override;

 private:
  enum class Place : std::uint8_t {
    name,
    first_argument,  // after (: a name or )
    argument,        // a name must follow
    in_argument,
    first_item,  // after [: a value or ]
    first_key,   // after {: a string or }
    key,
    colon,
    value,
    next,  // after a value: comma or an end
    scalar,
    text,
    escape,
    hex,
  };

  Step in_name(char byte);
  Step begin_argument(char byte);
  Step in_argument(char byte);
  Step begin_value(char byte);
  Step begin_text(char byte, bool is_key);
  Step in_text(char byte);
  Step in_escape(char byte);
  Step in_hex(char byte);
  Step end_text();
  Step in_scalar(char byte);
  Step next(char byte);
  Step close(char byte);

  Place place_ = Place::name;
  ContainerStack containers_;
  std::string word_;
  char quote_ = '"';
  bool is_key_ = false;
  int hex_left_ = 0;
  std::uint32_t code_ = 0;
};

}  // namespace reprise
