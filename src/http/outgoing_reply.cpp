// Replies of both kinds: whole ones with their length, streamed ones in chunks.
#include "http/outgoing_reply.h"

#include <utility>
#include <variant>

#include "base/check.h"
#include "http/reply_text.h"

namespace reprise {

void OutgoingReply::take(ReplyEvent event) {
  if (auto* head = std::get_if<ReplyHead>(&event)) begin(std::move(*head));
  if (auto* data = std::get_if<ReplyData>(&event)) add(data->bytes);
  if (std::holds_alternative<ReplyEnd>(event)) end();
}

void OutgoingReply::add_keep_alive() {
  if (!is_streamed() || is_ended_ || !head_.content_type.starts_with(kEventStream)) return;
  add(kKeepAliveComment);
}

std::string OutgoingReply::take_bytes() {
  return std::exchange(out_, {});
}

void OutgoingReply::begin(ReplyHead head) {
  CHECK(!has_head_);
  has_head_ = true;
  head_ = std::move(head);
  if (!head_.streamed) return;                   // the length is not known yet
  if (form_.http_1_0) form_.keep_alive = false;  // its end is the connection's
  const auto framing = form_.http_1_0 ? ReplyFraming::until_close : ReplyFraming::chunked;
  out_ += reply_head_text(
      head_, framing, 0, form_.keep_alive ? ReplyPersistence::keep_alive : ReplyPersistence::close);
}

void OutgoingReply::add(std::string_view bytes) {
  CHECK(has_head_);
  CHECK(!is_ended_);
  if (!head_.streamed) {
    body_ += bytes;
  } else if (form_.head_only) {
    return;
  } else if (form_.http_1_0) {
    out_ += bytes;
  } else {
    append_chunk(out_, bytes);
  }
}

void OutgoingReply::end() {
  CHECK(has_head_);
  CHECK(!is_ended_);
  is_ended_ = true;
  if (head_.streamed) {
    if (!form_.http_1_0 && !form_.head_only) out_ += kLastChunk;
    return;
  }
  const auto kept =
      form_.http_1_0 ? ReplyPersistence::keep_alive_http_1_0 : ReplyPersistence::keep_alive;
  out_ = reply_head_text(head_, ReplyFraming::length, body_.size(),
                         form_.keep_alive ? kept : ReplyPersistence::close);
  if (!form_.head_only && status_has_body(head_.status)) out_ += body_;
  body_ = {};
}

}  // namespace reprise
