// llama3: a reply that begins with {"name", "parameters"}, after <|python_tag|> or without it; more
// calls may follow after a semicolon.
#include <array>
#include <utility>

#include "text/json_call.h"
#include "text/json_scanner.h"
#include "text/marked_reply.h"
#include "text/reply_formats.h"

namespace reprise {
namespace {

constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::array kMarkers = {kPythonTag};

class Llama3Parser : public MarkedReply {
 public:
  explicit Llama3Parser(ReplyParserOptions options) : MarkedReply(std::move(options), kMarkers) {}

 protected:
  bool on_marker(std::string_view marker, bool is_special, Parts&) override {
    if (!options().has_tools || !is_blank()) return false;
    if (!is_special) hold(marker);
    return true;
  }

  std::size_t take_opening(std::string_view text, Parts&) override {
    if (!options().has_tools || !is_blank()) return 0;
    if (text.front() == '{') {
      begin_call({});
      return 0;
    }
    const bool is_separator = after_call() && text.front() == ';';
    if (!is_separator && !is_json_space(text.front())) return 0;
    hold(text.substr(0, 1));
    return 1;
  }

  std::unique_ptr<CallReader> make_reader() override {
    return std::make_unique<JsonCallReader>(true);
  }
};

}  // namespace

std::unique_ptr<ReplyParser> make_llama3_parser(ReplyParserOptions options) {
  return std::make_unique<Llama3Parser>(std::move(options));
}

}  // namespace reprise
