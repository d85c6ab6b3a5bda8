// The modes of MarkedReply, and what becomes of whitespace at their edges.
#include "text/marked_reply.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace reprise {
namespace {

constexpr std::string_view kSpace = " \n\r\t";

}  // namespace

MarkedReply::MarkedReply(ReplyParserOptions options, std::span<const std::string_view> markers)
    : options_(std::move(options)), markers_(markers) {
  if (options_.in_content) {
    is_blank_ = false;
    has_begun_ = true;
  } else if (options_.in_reasoning) {
    kind_ = Kind::reasoning;
    skips_newlines_ = true;
  }
}

void MarkedReply::push(std::string_view text, Parts& parts) {
  while (!text.empty()) {
    text.remove_prefix(reader_ ? take_call(text, parts) : take_text(text, parts));
  }
}

void MarkedReply::push_special(std::string_view spelling, Parts& parts) {
  const auto marker = std::ranges::find(markers_, spelling);
  const bool is_marker = marker != markers_.end();
  if (reader_) {
    if (is_part_of_calls(spelling)) return take_special_in_call(spelling, parts);
    if (!is_marker && !begins_marker(spelling)) return;
    fail_call(parts);
  }
  if (is_marker) {
    flush_marker(parts);
    on_marker(*marker, true, parts);
  } else if (begins_marker(spelling)) {
    flush_marker(parts);
    partial_ = spelling;
  }
}

void MarkedReply::finish(Parts& parts) {
  if (reader_) fail_call(parts);
  // Where the whole mark would close a call, its beginning is no text either.
  if (awaits_end_ && after_call() && call_end().starts_with(partial_)) partial_.clear();
  flush_marker(parts);
  before_end(parts);
  if (!after_call()) emit(kind_, std::move(pending_), parts);
  pending_.clear();
}

std::size_t MarkedReply::take_text(std::string_view text, Parts& parts) {
  if (!partial_.empty()) {
    take_marker_byte(text.front(), parts);
    return 1;
  }
  if (const std::size_t taken = take_opening(text, parts); taken > 0) return taken;
  if (reader_) return take_call(text, parts);
  if (text.front() == '<') {
    partial_ = '<';
    return 1;
  }
  const std::string_view run = text.substr(0, text.find('<'));
  before_text(parts);
  write(run, parts);
  return run.size();
}

void MarkedReply::take_marker_byte(char byte, Parts& parts) {
  partial_ += byte;
  if (const auto marker = std::ranges::find(markers_, partial_); marker != markers_.end()) {
    partial_.clear();
    if (on_marker(*marker, false, parts)) return;
    before_text(parts);
    return write(*marker, parts);
  }
  if (begins_marker(partial_)) return;
  // Markers have no second '<': none begins in the middle of what is held.
  partial_.pop_back();
  flush_marker(parts);
  push({&byte, 1}, parts);
}

void MarkedReply::flush_marker(Parts& parts) {
  if (partial_.empty()) return;
  before_text(parts);
  write(std::exchange(partial_, {}), parts);
}

bool MarkedReply::on_call_marker(std::string_view marker, std::string_view opening,
                                 std::string_view closing) {
  if (!options_.has_tools) return false;
  if (marker == opening) {
    begin_call(marker);
    return true;
  }
  if (marker != closing || !after_call()) return false;
  end_call();
  drop_held();
  return true;
}

void MarkedReply::begin_call(std::string_view raw) {
  reader_ = make_reader();
  raw_ = raw;
  is_emitted_ = false;
}

std::size_t MarkedReply::take_call(std::string_view text, Parts& parts) {
  for (std::size_t index = 0; index < text.size(); ++index) {
    const Step step = take_call_byte(text[index], parts);
    if (step == Step::failed) {
      fail_call(parts);
      return index;
    }
    if (step == Step::done) {
      complete_call(parts);
      return index + 1;
    }
  }
  if (is_emitted_) emit(Kind::tool_arguments, reader_->take_arguments(), parts);
  return text.size();
}

MarkedReply::Step MarkedReply::take_call_byte(char byte, Parts& parts) {
  const bool had_name = reader_->has_name();
  const Step step = reader_->push(byte);
  const bool is_named = reader_->has_name();
  if (step == Step::failed || (is_named && !had_name && !is_known(reader_->name()))) {
    return Step::failed;
  }
  if (!is_emitted_) raw_ += byte;
  // What cannot be malformed need not wait.
  const bool may_stream = options_.calls_are_constrained && !reader_->arguments().empty();
  if (!is_emitted_ && is_named && may_stream) emit_call(parts);
  return step;
}

// A special token that belongs into the call as a whole (and does not end it), or not at all.
void MarkedReply::take_special_in_call(std::string_view spelling, Parts& parts) {
  const std::size_t before = raw_.size();
  for (const char byte : spelling) {
    if (take_call_byte(byte, parts) == Step::more) continue;
    if (!is_emitted_) raw_.replace(before, std::string::npos, spelling);
    return fail_call(parts);
  }
  if (is_emitted_) emit(Kind::tool_arguments, reader_->take_arguments(), parts);
}

void MarkedReply::complete_call(Parts& parts) {
  if (!is_emitted_) {
    const auto arguments = parse_json(reader_->arguments(), kCallLimits);
    if (!arguments || !arguments->is_object()) return fail_call(parts);
    emit_call(parts);
  }
  emit(Kind::tool_arguments, reader_->take_arguments(), parts);
  reader_.reset();
}

// Text and call are a newline apart; what was blank stays unsaid.
void MarkedReply::emit_call(Parts& parts) {
  if (!is_blank_) {
    if (pending_.ends_with('\n')) pending_.pop_back();
    emit(Kind::content, std::move(pending_), parts);
  }
  pending_.clear();
  parts.push_back({.kind = Kind::tool_name, .text = reader_->name()});
  raw_.clear();
  is_emitted_ = true;
  is_blank_ = true;
  after_call_ = true;
  awaits_end_ = true;
  has_begun_ = true;
  skips_newlines_ = false;
}

void MarkedReply::fail_call(Parts& parts) {
  const std::unique_ptr<CallReader> reader = std::move(reader_);
  if (is_emitted_) return emit(Kind::tool_arguments, reader->take_arguments(), parts);
  // A marker may have begun in what the call's reader took.
  const std::string raw = std::exchange(raw_, {});
  const std::size_t last = raw.rfind('<');
  const bool may_begin = last != std::string::npos && last > 0 && begins_marker(raw.substr(last));
  const std::size_t end = may_begin ? last : raw.size();
  before_text(parts);
  write(std::string_view(raw).substr(0, end), parts);
  partial_ = raw.substr(end);
}

void MarkedReply::begin_thoughts(Parts& parts) {
  if (!is_blank_) {
    if (pending_.ends_with('\n')) pending_.pop_back();
    emit(kind_, std::move(pending_), parts);
  }
  pending_.clear();
  begin_segment(Kind::reasoning, parts);
  skips_newlines_ = true;
  has_begun_ = true;
}

void MarkedReply::end_thoughts(Parts& parts) {
  pending_.erase(pending_.find_last_not_of('\n') + 1);
  if (is_blank_) pending_.clear();
  begin_segment(Kind::content, parts);
  skips_newlines_ = true;
  has_begun_ = true;
}

void MarkedReply::begin_segment(Kind kind, Parts& parts) {
  if (!after_call()) emit(kind_, std::move(pending_), parts);
  pending_.clear();
  kind_ = kind;
  is_blank_ = true;
  after_call_ = false;
  skips_newlines_ = false;
}

void MarkedReply::write(std::string_view text, Parts& parts) {
  if (is_blank_ && skips_newlines_ && pending_.empty()) {
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  }
  const std::size_t end = text.find_last_not_of(kSpace) + 1;
  if (end > 0) {
    is_blank_ = false;
    has_begun_ = true;
    pending_ += text.substr(0, end);
    emit(kind_, std::move(pending_), parts);
    pending_.clear();
  }
  pending_ += text.substr(end);
}

void MarkedReply::emit(Kind kind, std::string text, Parts& parts) {
  if (text.empty() || (kind == Kind::content && options_.has_only_calls)) return;
  parts.push_back({.kind = kind, .text = std::move(text)});
}

bool MarkedReply::is_known(std::string_view name) const {
  return std::ranges::find(options_.tool_names, name) != options_.tool_names.end();
}

bool MarkedReply::begins_marker(std::string_view text) const {
  return std::ranges::any_of(markers_, [&](std::string_view marker) {
    return marker.size() > text.size() && marker.starts_with(text);
  });
}

}  // namespace reprise
