// The connection's end of a StreamChannel: wakes the I/O thread when a producer has pushed
// something, and no longer once the connection has left. Both the channel and this live until the
// last of connection and producers has let go; neither has to know when the other ends.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "api/stream_channel.h"

namespace boost::asio {
class io_context;
}

namespace reprise {

class ReplyInbox : public std::enable_shared_from_this<ReplyInbox> {
 public:
  // `on_events` runs on the I/O thread, after something came into the empty channel, until close().
  // Make it with std::make_shared: its own wake-ups on the way share it too.
  ReplyInbox(boost::asio::io_context& io, std::function<void()> on_events);

  // For Service::handle.
  std::shared_ptr<StreamChannel> channel();
  std::optional<ReplyEvent> pop() { return channel_.pop(); }
  void abandon() { channel_.abandon(); }
  // I/O thread. From here on nothing of the connection or the io_context is touched.
  void close();

 private:
  void wake();  // a producer's thread

  StreamChannel channel_;
  std::function<void()> on_events_;  // I/O thread only
  std::mutex mutex_;
  boost::asio::io_context* io_;  // guarded by mutex_; null after close()
};

}  // namespace reprise
