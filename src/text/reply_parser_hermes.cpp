// hermes: <think> thoughts </think> first, calls as <tool_call> {"name", "arguments"} </tool_call>.
#include <array>
#include <utility>

#include "text/json_call.h"
#include "text/marked_reply.h"
#include "text/reply_formats.h"

namespace reprise {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>";
constexpr std::array kMarkers = {kThink, kThinkEnd, kCall, kCallEnd};

class HermesParser : public MarkedReply {
 public:
  explicit HermesParser(ReplyParserOptions options) : MarkedReply(std::move(options), kMarkers) {}

 protected:
  bool on_marker(std::string_view marker, bool, Parts& parts) override {
    if (marker == kThink) return on_think(parts);
    if (in_thoughts()) {
      if (marker != kThinkEnd) return false;
      end_thoughts(parts);
      return true;
    }
    return on_call_marker(marker, kCall, kCallEnd);
  }

  std::string_view call_end() const override { return kCallEnd; }

  std::unique_ptr<CallReader> make_reader() override {
    return std::make_unique<JsonCallReader>(false);
  }

 private:
  // Only the beginning of a reply; a prompt that has opened the thoughts may be repeated.
  bool on_think(Parts& parts) {
    if (!at_start()) return false;
    begin_thoughts(parts);
    return true;
  }
};

}  // namespace

std::unique_ptr<ReplyParser> make_hermes_parser(ReplyParserOptions options) {
  return std::make_unique<HermesParser>(std::move(options));
}

}  // namespace reprise
