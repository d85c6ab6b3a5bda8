// Fuzzes the reply parsers: whatever a model writes, the parts do not depend on how the text is
// cut, calls are of known functions and (when no grammar holds them) well-formed, and memory and
// time are bounded by the text.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "support/reply_reading.h"

namespace reprise {
namespace {

using testing::cut_pieces;
using testing::read_reply;
using testing::ReplyPiece;
using testing::WholeReply;

// A special token stands between two bytes 0x01.
std::vector<ReplyPiece> pieces_of(std::string_view text) {
  std::vector<ReplyPiece> pieces;
  bool is_special = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\1');
    const std::string_view piece = text.substr(0, end);
    if (!piece.empty()) pieces.push_back({.text = std::string(piece), .is_special = is_special});
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    is_special = !is_special;
  }
  return pieces;
}

void exercise(ReplyFormat format, const ReplyParserOptions& options,
              const std::vector<ReplyPiece>& pieces) {
  const WholeReply whole = read_reply(format, options, pieces);
  for (const std::size_t size : {1, 3}) {
    CHECK(read_reply(format, options, cut_pieces(pieces, size)) == whole);
  }
  std::size_t written = 0, read = whole.content.size() + whole.reasoning.size();
  for (const ReplyPiece& piece : pieces) written += piece.text.size();
  for (const WholeReply::Call& call : whole.calls) {
    CHECK(options.has_tools && (call.name == "get" || call.name == "f.g"));
    read += call.arguments.size();
    if (options.calls_are_constrained) continue;
    const auto arguments = parse_json(call.arguments, kCallLimits);
    CHECK(arguments && arguments->is_object());
  }
  CHECK(read <= 7 * written);  // a byte may need six as a JSON escape
  if (format == ReplyFormat::plain) CHECK(whole.reasoning.empty() && whole.calls.empty());
}

}  // namespace
}  // namespace reprise

// The first byte: which format and options.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using reprise::ReplyFormat;
  constexpr ReplyFormat kFormats[] = {ReplyFormat::plain,  ReplyFormat::hermes, ReplyFormat::llama3,
                                      ReplyFormat::llama4, ReplyFormat::gemma4, ReplyFormat::muse};
  if (size == 0) return 0;
  const unsigned choice = data[0];
  const reprise::ReplyParserOptions options{.has_tools = (choice & 8) == 0,
                                            .in_reasoning = (choice & 16) != 0,
                                            .tool_names = {"get", "f.g"},
                                            .calls_are_constrained = (choice & 32) != 0};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  reprise::exercise(kFormats[(choice & 7) % 6], options, reprise::pieces_of(text));
  return 0;
}
