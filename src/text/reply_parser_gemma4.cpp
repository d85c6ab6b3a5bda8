// gemma4: thoughts in <|channel>thought ... <channel|>, calls in <|tool_call>call:name{...}
// <tool_call|>; in the vocabulary the markers are special tokens.
#include <array>
#include <utility>

#include "text/gemma_call.h"
#include "text/marked_reply.h"
#include "text/reply_formats.h"

namespace reprise {
namespace {

constexpr std::string_view kThought = "<|channel>thought", kThoughtEnd = "<channel|>";
constexpr std::string_view kCall = "<|tool_call>", kCallEnd = "<tool_call|>";
constexpr std::array kMarkers = {kThought, kThoughtEnd, kCall, kCallEnd};

class Gemma4Parser : public MarkedReply {
 public:
  explicit Gemma4Parser(ReplyParserOptions options) : MarkedReply(std::move(options), kMarkers) {}

 protected:
  bool on_marker(std::string_view marker, bool, Parts& parts) override {
    if (in_thoughts()) {
      if (marker != kThoughtEnd) return false;
      end_thoughts(parts);
      return true;
    }
    if (marker == kThought) {
      begin_thoughts(parts);
      return true;
    }
    return on_call_marker(marker, kCall, kCallEnd);
  }

  bool is_part_of_calls(std::string_view spelling) const override { return spelling == "<|\"|>"; }

  std::string_view call_end() const override { return kCallEnd; }

  std::unique_ptr<CallReader> make_reader() override { return std::make_unique<GemmaCallReader>(); }
};

}  // namespace

std::unique_ptr<ReplyParser> make_gemma4_parser(ReplyParserOptions options) {
  return std::make_unique<Gemma4Parser>(std::move(options));
}

}  // namespace reprise
