// One call of a function in a family's syntax, taken byte by byte: a part of the reply parsers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace reprise {

// The arguments come out as the text of a JSON object, as far as they are read.
class CallReader {
 public:
  enum class Step : std::uint8_t {
    more,
    done,    // with this byte the call is whole
    failed,  // with this byte it can never be
  };
  virtual ~CallReader() = default;
  virtual Step push(char byte) = 0;  // not after done and failed

  bool has_name() const { return has_name_; }  // the name is whole
  const std::string& name() const { return name_; }
  const std::string& arguments() const { return arguments_; }  // not taken yet
  std::string take_arguments() { return std::exchange(arguments_, {}); }

 protected:
  static constexpr std::size_t kNameBytesMax = 256;  // of functions and their arguments
  static constexpr std::size_t kScalarBytesMax = 64;
  static constexpr int kDepthMax = static_cast<int>(JsonLimits{}.depth_max);

  std::string name_;
  std::string arguments_;
  bool has_name_ = false;
};

// The containers around a place, the outermost first.
class ContainerStack {
 public:
  // False: too deep.
  bool open(bool is_object) {
    if (depth_ == kDepthMax) return false;
    const std::uint64_t bit = std::uint64_t{1} << depth_++;
    objects_ = is_object ? objects_ | bit : objects_ & ~bit;
    return true;
  }
  void close() { --depth_; }
  int depth() const { return depth_; }
  bool in_object() const { return depth_ > 0 && (objects_ >> (depth_ - 1) & 1) != 0; }

 private:
  static constexpr int kDepthMax = static_cast<int>(JsonLimits{}.depth_max);
  static_assert(kDepthMax <= 64);  // bits of the word
  std::uint64_t objects_ = 0;      // bit d: the container of depth d + 1 is an object
  int depth_ = 0;
};

// One byte of a string, as JSON writes it. Bytes of UTF-8 characters stay as they are.
void append_json_byte(std::string& out, char byte);

// A number or word in JSON's or Python's spelling (true, True, None ...). False: it is neither.
bool append_json_scalar(std::string& out, std::string_view word);

}  // namespace reprise
