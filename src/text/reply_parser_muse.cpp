// muse: messages to somebody, each begun by " to=NAME<|message|>" and, from the second on,
// "<|start|>assistant" before that; thoughts go to self, calls (<atem:function_calls>) to tools.
#include <array>
#include <utility>

#include "text/atem_call.h"
#include "text/json_scanner.h"
#include "text/marked_reply.h"
#include "text/reply_formats.h"

namespace reprise {
namespace {

constexpr std::string_view kStart = "<|start|>", kMessage = "<|message|>";
constexpr std::string_view kEndOfMessage = "<|eom|>", kEndOfTurn = "<|eot|>";
constexpr std::string_view kCalls = "<atem:function_calls>", kInvoke = "<atem:invoke ";
constexpr std::string_view kCallsEnd = "</atem:function_calls>";
constexpr std::array kMarkers = {kStart, kMessage, kEndOfMessage, kEndOfTurn,
                                 kCalls, kInvoke,  kCallsEnd};
constexpr std::string_view kTo = "to=";

// What stands before <|message|>: a role (behind <|start|>), and to whom.
class MuseHeader {
 public:
  bool is_open() const { return is_open_; }
  const std::string& text() const { return text_; }
  // Nobody doubts any more that this is a header.
  bool is_certain() const { return has_role_ || place_ >= Place::recipient; }
  bool is_to_self() const { return recipient_ == "self"; }

  void open(bool has_role, std::string_view text) {
    *this = {};
    is_open_ = true;
    has_role_ = has_role;
    place_ = has_role ? Place::role : Place::space;
    text_ = text;
  }
  std::string close() {
    is_open_ = false;
    return std::exchange(text_, {});
  }
  // False: this is no header.
  bool push(char byte) {
    constexpr std::size_t kBytesMax = 256;
    text_ += byte;
    if (text_.size() > kBytesMax) return false;
    const bool is_space = is_json_space(byte);
    switch (place_) {
      case Place::role:
        if (is_space) place_ = Place::space;
        return is_space || (byte >= 'a' && byte <= 'z');
      case Place::space:
        if (is_space) return true;
        place_ = Place::to;
        [[fallthrough]];
      case Place::to:
        if (byte != kTo[matched_]) return false;
        if (++matched_ == kTo.size()) place_ = Place::recipient;
        return true;
      case Place::recipient:
        if (is_space) {
          place_ = Place::end;
        } else {
          recipient_ += byte;
        }
        return true;
      case Place::end:
        break;
    }
    return is_space;
  }

 private:
  enum class Place : std::uint8_t { role, space, to, recipient, end };

  bool is_open_ = false;
  bool has_role_ = false;
  Place place_ = Place::space;
  std::string text_;
  std::size_t matched_ = 0;
  std::string recipient_;
};

class MuseParser : public MarkedReply {
 public:
  explicit MuseParser(ReplyParserOptions options) : MarkedReply(std::move(options), kMarkers) {
    const bool has_header = this->options().in_reasoning || this->options().in_content;
    if (!has_header) header_.open(false, {});
  }

 protected:
  bool on_marker(std::string_view marker, bool is_special, Parts& parts) override {
    if (marker == kMessage) {
      if (!header_.is_open()) return false;
      header_.close();
      drop_held();
      is_between_ = false;
      begin_segment(header_.is_to_self() ? Kind::reasoning : Kind::content, parts);
      return true;
    }
    const std::string_view spelling = is_special ? std::string_view() : marker;
    if (marker == kStart) {
      before_text(parts);
      if (in_thoughts()) begin_segment(Kind::content, parts);
      header_.open(true, spelling);
      return true;
    }
    if (marker == kEndOfMessage || marker == kEndOfTurn) {
      before_text(parts);
      if (!after_call()) begin_segment(Kind::content, parts);
      is_between_ = true;
      hold(spelling);
      return true;
    }
    return on_call_marker(marker, parts);
  }

  std::size_t take_opening(std::string_view text, Parts& parts) override {
    if (!header_.is_open()) return 0;
    std::size_t taken = 0;
    while (taken < text.size() && text[taken] != '<') {
      if (header_.push(text[taken++])) continue;
      before_text(parts);
      break;
    }
    return taken;
  }

  // What looked like a header was text.
  void before_text(Parts& parts) override {
    if (header_.is_open()) write(header_.close(), parts);
  }

  void before_end(Parts& parts) override {
    // What is held of a message's end, and the beginning of a header, say nothing.
    if (header_.is_open() && header_.is_certain()) header_.close();
    if (!header_.is_open() && is_between_ && is_blank()) drop_held();
    before_text(parts);
  }

  std::string_view call_end() const override { return kCallsEnd; }

  std::unique_ptr<CallReader> make_reader() override {
    return std::make_unique<AtemCallReader>(options());
  }

 private:
  bool on_call_marker(std::string_view marker, Parts& parts) {
    if (!options().has_tools || in_thoughts()) return false;
    if (marker == kCallsEnd) {
      if (!after_call()) return false;
      end_call();
      drop_held();
      return true;
    }
    before_text(parts);
    begin_call({});
    // The reader sees the marker, too; it is the beginning of a call.
    push(marker, parts);
    return true;
  }

  MuseHeader header_;
  bool is_between_ = false;  // behind a message's end
};

}  // namespace

std::unique_ptr<ReplyParser> make_muse_parser(ReplyParserOptions options) {
  return std::make_unique<MuseParser>(std::move(options));
}

}  // namespace reprise
