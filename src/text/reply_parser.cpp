// The choice of a parser, and the one for plain text.
#include "text/reply_parser.h"

#include <utility>

#include "text/reply_formats.h"

namespace reprise {
namespace {

class PlainParser : public ReplyParser {
 public:
  void push(std::string_view text, std::vector<ReplyPart>& parts) override {
    if (!text.empty()) parts.push_back({.text = std::string(text)});
  }
  void push_special(std::string_view, std::vector<ReplyPart>&) override {}
  void finish(std::vector<ReplyPart>&) override {}
};

std::string_view without_space_at_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \n\r\t") + 1);
}

}  // namespace

std::unique_ptr<ReplyParser> make_reply_parser(ReplyFormat format, ReplyParserOptions options) {
  switch (format) {
    case ReplyFormat::plain:
      break;
    case ReplyFormat::hermes:
      return make_hermes_parser(std::move(options));
    case ReplyFormat::llama3:
      return make_llama3_parser(std::move(options));
    case ReplyFormat::llama4:
      return make_llama4_parser(std::move(options));
    case ReplyFormat::gemma4:
      return make_gemma4_parser(std::move(options));
    case ReplyFormat::muse:
      return make_muse_parser(std::move(options));
  }
  return std::make_unique<PlainParser>();
}

bool calls_follow_text(ReplyFormat format) {
  return format == ReplyFormat::hermes || format == ReplyFormat::gemma4 ||
         format == ReplyFormat::muse;
}

bool opens_reasoning(ReplyFormat format, std::string_view prompt) {
  const std::string_view end = without_space_at_end(prompt);
  switch (format) {
    case ReplyFormat::hermes:
      return end.ends_with("<think>");
    case ReplyFormat::gemma4:
      return end.ends_with("<|channel>thought");
    case ReplyFormat::muse:
      return prompt.ends_with(" to=self<|message|>");
    default:
      return false;
  }
}

}  // namespace reprise
