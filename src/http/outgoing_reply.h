// A reply's events to the bytes of its response. No sockets: the connection sends what is in `out`.
#pragma once
#include <string>

#include "api/stream_channel.h"

namespace reprise {

// What the request says about the form of its response.
struct ReplyForm {
  bool http_1_0 = false;
  bool head_only = false;  // the answer to HEAD: no body
  bool keep_alive = true;
};

class OutgoingReply {
 public:
  explicit OutgoingReply(ReplyForm form) : form_(form) {}

  // In the order that stream_channel.h promises. A streamed reply's bytes are ready at once,
  // another's at its end, when the length is known.
  void take(ReplyEvent event);
  // A comment for the reader of an event stream that is silent; nothing for other replies.
  void add_keep_alive();

  std::string take_bytes();  // ready to be sent
  std::size_t ready_bytes() const { return out_.size(); }
  bool is_streamed() const { return has_head_ && head_.streamed; }
  bool is_ended() const { return is_ended_; }
  // Nothing more comes that this response could carry.
  bool is_complete() const { return is_ended_ || (form_.head_only && is_streamed()); }
  bool keeps_connection() const { return form_.keep_alive && is_ended_; }

 private:
  void begin(ReplyHead head);
  void add(std::string_view bytes);
  void end();

  ReplyForm form_;
  ReplyHead head_;
  bool has_head_ = false;
  bool is_ended_ = false;
  std::string body_;  // of a reply that is not streamed
  std::string out_;
};

}  // namespace reprise
