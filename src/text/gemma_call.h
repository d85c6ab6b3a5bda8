// A call as Gemma 4 writes it: a part of the reply parsers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/call_reader.h"
#include "text/json_scanner.h"

namespace reprise {

// call:name{key:value,...}. Values are <|"|>strings<|"|> without escapes, numbers, words, [lists]
// and {objects}; keys stand bare or in quotes. JSON's strings are understood too.
class GemmaCallReader : public CallReader {
 public:
  Step push(char byte) override;

 private:
  enum class Place : std::uint8_t {
    prefix,  // in "call:"
    name,
    first_key,  // after {: a key or }
    key,
    in_key,  // in a bare key
    colon,
    first_item,  // after [: a value or ]
    value,
    next,  // after a value: comma or an end
    scalar,
    open_quote,  // in the quote before a string
    text,
    json_text,
  };

  Step in_prefix(char byte);
  Step in_name(char byte);
  Step begin_key(char byte);
  Step in_key(char byte);
  Step begin_value(char byte);
  Step begin_text(char byte, bool is_key);
  Step in_open_quote(char byte);
  Step in_text(char byte);
  Step in_json_text(char byte);
  Step end_text();
  Step in_scalar(char byte);
  Step next(char byte);
  Step close(char byte);

  Place place_ = Place::prefix;
  ContainerStack containers_;
  std::size_t matched_ = 0;  // bytes of the prefix or quote
  std::string word_;
  bool is_key_ = false;
  JsonScanner scanner_;
};

}  // namespace reprise
