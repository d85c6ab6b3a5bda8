// Writes JSON straight into a string, in the order of the calls: replies need no value trees.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/json.h"

namespace reprise {

// The caller keeps begin and end, key and value in step; commas are ours.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  JsonWriter& key(std::string_view name) {
    separate();
    append_json_text(out_, name);
    out_ += ':';
    return *this;
  }
  JsonWriter& text(std::string_view value) {
    separate();
    append_json_text(out_, value);
    return done();
  }
  template <class Integer>
  JsonWriter& integer(Integer value) {
    return raw(fmt::format("{}", value));
  }
  template <class Float>
  JsonWriter& number(Float value) {
    separate();
    append_json_number(out_, value);
    return done();
  }
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }
  // A value that is JSON already.
  JsonWriter& raw(std::string_view json) {
    separate();
    out_ += json;
    return done();
  }

  std::string take() { return std::exchange(out_, {}); }

 private:
  JsonWriter& open(char bracket) {
    separate();
    out_ += bracket;
    return *this;
  }
  JsonWriter& close(char bracket) {
    needs_comma_ = false;
    out_ += bracket;
    return done();
  }
  void separate() {
    if (std::exchange(needs_comma_, false)) out_ += ',';
  }
  JsonWriter& done() {
    needs_comma_ = true;
    return *this;
  }

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace reprise
