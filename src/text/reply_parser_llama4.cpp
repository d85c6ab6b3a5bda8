// llama4: a reply, or a part of it at a Python marker, that begins with [name(argument=value, ...),
// ...] or with llama3's objects.
#include <array>
#include <utility>

#include "text/json_call.h"
#include "text/json_scanner.h"
#include "text/marked_reply.h"
#include "text/python_call.h"
#include "text/reply_formats.h"

namespace reprise {
namespace {

constexpr std::string_view kPythonStart = "<|python_start|>", kPythonEnd = "<|python_end|>";
constexpr std::array kMarkers = {kPythonStart, kPythonEnd};

class Llama4Parser : public MarkedReply {
 public:
  explicit Llama4Parser(ReplyParserOptions options) : MarkedReply(std::move(options), kMarkers) {}

 protected:
  // The template writes <|python_start|> text <|python_end|> {"name" ...}.
  bool on_marker(std::string_view marker, bool is_special, Parts& parts) override {
    if (!options().has_tools) return false;
    if (!is_blank()) begin_segment(Kind::content, parts);
    if (marker == kPythonEnd) end_call();
    if (!is_special) hold(marker);
    return true;
  }

  std::size_t take_opening(std::string_view text, Parts&) override {
    if (!options().has_tools || !is_blank()) return 0;
    const char byte = text.front();
    if (in_list_ && after_call()) return take_list(byte);
    in_list_ = byte == '[';
    if (byte == '{' || byte == '[') {
      begin_call(in_list_ ? text.substr(0, 1) : text.substr(0, 0));
      return in_list_ ? 1 : 0;
    }
    if (!is_json_space(byte) && !(after_call() && byte == ';')) return 0;
    hold(text.substr(0, 1));
    return 1;
  }

  std::string_view call_end() const override { return kPythonEnd; }

  std::unique_ptr<CallReader> make_reader() override {
    if (in_list_) return std::make_unique<PythonCallReader>();
    return std::make_unique<JsonCallReader>(true);
  }

 private:
  // Behind a call of a list.
  std::size_t take_list(char byte) {
    if (byte == ',') {
      begin_call(",");
    } else if (byte == ']') {
      in_list_ = false;
    } else if (!is_json_space(byte)) {
      return 0;
    }
    return 1;
  }

  bool in_list_ = false;
};

}  // namespace

std::unique_ptr<ReplyParser> make_llama4_parser(ReplyParserOptions options) {
  return std::make_unique<Llama4Parser>(std::move(options));
}

}  // namespace reprise
