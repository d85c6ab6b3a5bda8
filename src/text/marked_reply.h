// What the reply parsers of all formats share: text between markers, and calls. A part of them.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/call_reader.h"
#include "text/reply_parser.h"

namespace reprise {

// Goes through the reply byte by byte in one of two modes. In text, the first byte that can begin
// a marker is held until it is one or cannot be; in a call, bytes go to a reader and are kept until
// the call is good (then they are forgotten) or cannot be (then they were text). What was read in
// vain is not read again, so time is linear.
class MarkedReply : public ReplyParser {
 public:
  void push(std::string_view text, std::vector<ReplyPart>& parts) final;
  void push_special(std::string_view spelling, std::vector<ReplyPart>& parts) final;
  void finish(std::vector<ReplyPart>& parts) final;

 protected:
  using Parts = std::vector<ReplyPart>;
  using Kind = ReplyPart::Kind;

  // Each marker begins with '<' and has no other; none begins another. They are string literals.
  MarkedReply(ReplyParserOptions options, std::span<const std::string_view> markers);

  // A marker outside of calls. False: it means nothing here (it is text; a special token: nothing).
  virtual bool on_marker(std::string_view marker, bool is_special, Parts& parts) = 0;
  virtual std::unique_ptr<CallReader> make_reader() = 0;
  // Text at places where a format expects something without a marker: how many bytes of it were
  // that; 0: the first is ordinary, or belongs to the call that this began.
  virtual std::size_t take_opening(std::string_view, Parts&) { return 0; }
  // Ordinary text comes next.
  virtual void before_text(Parts&) {}
  // The mark that closes calls; empty: the format has none.
  virtual std::string_view call_end() const { return {}; }
  // A special token, not among the markers, that calls are written with.
  virtual bool is_part_of_calls(std::string_view) const { return false; }
  virtual void before_end(Parts&) {}

  const ReplyParserOptions& options() const { return options_; }

  // The bytes that follow belong to a call that began with `raw`.
  void begin_call(std::string_view raw);
  // What a mark means where calls stand between an opening and a closing one: whether it is either.
  bool on_call_marker(std::string_view marker, std::string_view opening, std::string_view closing);
  // The mark that closes calls came.
  void end_call() { awaits_end_ = false; }
  void begin_thoughts(Parts& parts);
  void end_thoughts(Parts& parts);
  void begin_segment(Kind kind, Parts& parts);  // verbatim up to here
  void write(std::string_view text, Parts& parts);
  // Goes with the whitespace before a call or the reply's end, unless text follows.
  void hold(std::string_view text) { pending_ += text; }
  void drop_held() { pending_.clear(); }

  bool in_thoughts() const { return kind_ == Kind::reasoning; }
  bool is_blank() const { return is_blank_; }  // nothing but whitespace since the segment began
  bool after_call() const { return after_call_ && is_blank_; }
  bool at_start() const { return !has_begun_; }  // nothing but whitespace yet

 private:
  using Step = CallReader::Step;

  std::size_t take_text(std::string_view text, Parts& parts);
  void take_marker_byte(char byte, Parts& parts);
  std::size_t take_call(std::string_view text, Parts& parts);
  Step take_call_byte(char byte, Parts& parts);
  void take_special_in_call(std::string_view spelling, Parts& parts);
  void complete_call(Parts& parts);
  void emit_call(Parts& parts);
  void fail_call(Parts& parts);
  void flush_marker(Parts& parts);
  bool is_known(std::string_view name) const;
  bool begins_marker(std::string_view text) const;
  void emit(Kind kind, std::string text, Parts& parts);

  ReplyParserOptions options_;
  std::span<const std::string_view> markers_;

  Kind kind_ = Kind::content;
  std::string partial_;  // the beginning of a marker
  std::string pending_;  // whitespace at the end of the text so far
  bool is_blank_ = true;
  bool has_begun_ = false;
  bool after_call_ = false;
  bool awaits_end_ = false;      // of the newest call: its closing mark has not come
  bool skips_newlines_ = false;  // at the segment's beginning

  std::unique_ptr<CallReader> reader_;  // of the call that is being read
  std::string raw_;                     // its text, until it is emitted
  bool is_emitted_ = false;             // its name is out, and arguments follow as they come
};

}  // namespace reprise
