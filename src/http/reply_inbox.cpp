// Wake-ups from a reply's producers to its connection.
#include "http/reply_inbox.h"

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

namespace reprise {

ReplyInbox::ReplyInbox(boost::asio::io_context& io, std::function<void()> on_events)
    : on_events_(std::move(on_events)), io_(&io) {
  // The channel is a member, so a wake-up cannot come after our end.
  channel_.set_wake([this] { wake(); });
}

std::shared_ptr<StreamChannel> ReplyInbox::channel() {
  return {shared_from_this(), &channel_};
}

void ReplyInbox::wake() {
  const std::lock_guard lock(mutex_);
  if (io_ == nullptr) return;
  boost::asio::post(*io_, [self = shared_from_this()] {
    if (self->on_events_) self->on_events_();
  });
}

void ReplyInbox::close() {
  on_events_ = nullptr;
  const std::lock_guard lock(mutex_);
  io_ = nullptr;
}

}  // namespace reprise
