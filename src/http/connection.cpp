// The walk of a connection. Every wait ends by itself: by an event, a deadline or the client's
// leaving.
#include "http/connection.h"

#include <cstdint>
#include <linux/sockios.h>
#include <memory>
#include <poll.h>
#include <sys/ioctl.h>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include "http/fetch_watch.h"
#include "http/outgoing_reply.h"
#include "http/reply_inbox.h"
#include "http/reply_text.h"

namespace reprise {

namespace net = boost::asio;
using boost::system::error_code;
constexpr auto kAwait = net::as_tuple(net::use_awaitable);

// Early bytes that are read ahead of their turn; more stays in the kernel and slows the client
// down.
constexpr std::size_t kEarlyBytesMax = 16 << 10;
constexpr int kSendBufferBytes = 256 << 10;
// After a reply that closes: time for the client to take it before its own unread bytes make the
// kernel reset the connection.
constexpr std::int64_t kLingerMs = 2000;
// So long nobody who fetches a reply has to give way.
constexpr auto kFetchTime = std::chrono::seconds(1);

namespace {

RequestTrouble late_trouble(std::string_view part, std::int64_t limit_ms) {
  return {408, "request_timeout",
          fmt::format("The request's {} did not arrive within {} ms.", part, limit_ms)};
}

RequestTrouble bodies_full_trouble(std::size_t bytes) {
  return {503, "overloaded",
          fmt::format("Too many requests arrive at once: this one, of which {} bytes have come, is "
                      "the largest and gave way.",
                      bytes)};
}

// What the kernel holds for a client that has not acknowledged it; 0 when it does not say.
std::size_t bytes_in_kernel(net::ip::tcp::socket& socket) {
  int bytes = 0;
  if (::ioctl(socket.native_handle(), SIOCOUTQ, &bytes) != 0 || bytes < 0) return 0;
  return static_cast<std::size_t>(bytes);
}

}  // namespace

// The reply on its way, known to its connection as long as it lives. Its end, however reached, lets
// the producers go.
struct Connection::Reply {
  Reply(Connection& its_connection, ReplyForm form)
      : connection(its_connection),
        inbox(std::make_shared<ReplyInbox>(connection.context_.io,
                                           [this] { connection.on_events(); })),
        outgoing(form),
        fetch_watch(connection.context_.options.stream_bytes_max,
                    std::chrono::milliseconds(connection.context_.options.stream_grace_ms)) {
    connection.reply_ = this;
  }
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  ~Reply() {
    connection.reply_ = nullptr;
    if (!outgoing.is_ended()) inbox->abandon();
    inbox->close();
  }

  void drain_inbox() {
    if (!outgoing.is_ended()) made_at = Clock::now();
    while (auto event = inbox->pop()) {
      const std::size_t before = outgoing.ready_bytes();
      outgoing.take(std::move(*event));
      fetch_watch.add(outgoing.ready_bytes() - before);
    }
  }

  Connection& connection;
  std::shared_ptr<ReplyInbox> inbox;
  OutgoingReply outgoing;
  FetchWatch fetch_watch;
  Clock::time_point made_at = Clock::now();
};

Connection::Connection(ConnectionContext& context, net::ip::tcp::socket socket)
    : context_(context), socket_(std::move(socket)), signal_(context.io) {
  error_code ignored;
  socket_.set_option(net::ip::tcp::no_delay(true), ignored);  // each event is of this moment
  // Left alone, the kernel would hold megabytes for each client that fetches nothing.
  socket_.set_option(net::socket_base::send_buffer_size(kSendBufferBytes), ignored);
}

net::awaitable<void> Connection::serve() {
  bool go_on = true;
  while (go_on) {
    RequestReader reader(context_.options.header_bytes_max,
                         context_.service.options().body_bytes_max);
    go_on = co_await read_request(reader);
    if (!go_on) co_return;
    go_on = co_await send_reply(reader);
  }
  co_await linger();
}

net::awaitable<void> Connection::refuse() {
  RequestTrouble trouble = {503, "too_many_connections", "The server has too many connections."};
  co_await send_trouble(std::move(trouble));
}

net::awaitable<void> Connection::finish() {
  drop();
  end_body();
  while (reading_) co_await wait_until(Clock::time_point::max());
}

// True when `reader` holds a request. Otherwise the connection is at its end; a reply that says why
// has been sent, where there is somebody to send it to.
net::awaitable<bool> Connection::read_request(RequestReader& reader) {
  enter(Phase::idle, context_.options.idle_timeout_ms);
  for (;;) {
    if (!unread_.empty()) {
      std::size_t consumed = 0;
      const auto progress = reader.feed(unread_, consumed);
      unread_.erase(0, consumed);
      if (progress == RequestReader::Progress::done) co_return true;
      if (progress == RequestReader::Progress::failed) {
        RequestTrouble trouble = reader.trouble();
        co_await give_up(reader, std::move(trouble));
        co_return false;
      }
      if (phase_ == Phase::idle && reader.started()) {
        enter(Phase::header, context_.options.header_timeout_ms);
      }
      if (progress == RequestReader::Progress::header_done) {
        if (reader.expects_continue() && unread_.empty()) {
          std::string go_on(kContinueText);
          co_await write(std::move(go_on));
        }
        enter(Phase::body, context_.options.body_timeout_ms);
        count_body(unread_.size());
        continue;
      }
    }
    if (gone_ || (phase_ == Phase::idle && (timed_out_ || context_.draining))) co_return false;
    if (timed_out_ || refused_body_bytes_ > 0) {
      RequestTrouble trouble = phase_ == Phase::header
                                   ? late_trouble("header", context_.options.header_timeout_ms)
                                   : late_trouble("body", context_.options.body_timeout_ms);
      if (refused_body_bytes_ > 0) trouble = bodies_full_trouble(refused_body_bytes_);
      co_await give_up(reader, std::move(trouble));
      co_return false;
    }
    start_read();
    co_await wait_until(Clock::time_point::max());
  }
}

// Nothing of the body is kept while the client is told.
net::awaitable<void> Connection::give_up(RequestReader& reader, RequestTrouble trouble) {
  reader.drop_body();
  co_await send_trouble(std::move(trouble));
}

// True when the reply was sent whole and the connection can take another request.
net::awaitable<bool> Connection::send_reply(RequestReader& reader) {
  enter(Phase::reply, 0);
  const auto silence = std::chrono::milliseconds(context_.options.keep_alive_ms);
  Reply reply(*this, {.http_1_0 = reader.is_http_1_0(),
                      .head_only = reader.is_head(),
                      .keep_alive = reader.keep_alive() && !context_.draining});
  OutgoingReply& outgoing = reply.outgoing;
  context_.service.handle(reader.take(), reply.inbox->channel());
  reply.drain_inbox();
  while (!gone_) {
    start_read();
    if (outgoing.ready_bytes() > 0) {
      std::string piece = outgoing.take_bytes();
      co_await write(std::move(piece));
    } else if (outgoing.is_complete()) {
      co_return outgoing.keeps_connection();
    } else {
      const bool silent = co_await wait_until(Clock::now() + silence);
      if (silent && outgoing.ready_bytes() == 0) outgoing.add_keep_alive();
    }
  }
  co_return false;
}

net::awaitable<void> Connection::send_trouble(RequestTrouble trouble) {
  std::string body;
  const ReplyHead head =
      context_.service.error_reply(trouble.status, trouble.code, trouble.message, body);
  std::string text =
      reply_head_text(head, ReplyFraming::length, body.size(), ReplyPersistence::close);
  text += body;
  enter(Phase::closing, 0);
  co_await write(std::move(text));
  co_await linger();
}

// Sends all of it, unless the client leaves or takes nothing for the write timeout: then gone_.
net::awaitable<void> Connection::write(std::string bytes) {
  const auto patience = std::chrono::milliseconds(context_.options.write_timeout_ms);
  writing_ = true;
  unsent_bytes_ = bytes.size();
  while (unsent_bytes_ > 0 && !gone_) {
    deadline_ = Clock::now() + patience;
    least_queued_bytes_ = SIZE_MAX;
    const char* next = bytes.data() + (bytes.size() - unsent_bytes_);
    auto [error, count] =
        co_await socket_.async_write_some(net::buffer(next, unsent_bytes_), kAwait);
    unsent_bytes_ -= count;
    if (error) drop();
  }
  writing_ = false;
  deadline_ = Clock::time_point::max();
}

// A polite end: says that nothing more comes and reads until the client has closed as well, since
// closing with bytes unread would reset the connection and take the reply from the client.
net::awaitable<void> Connection::linger() {
  enter(Phase::closing, kLingerMs);
  error_code ignored;
  if (!gone_) socket_.shutdown(net::ip::tcp::socket::shutdown_send, ignored);
  while (!gone_ && !timed_out_) {
    unread_.clear();
    start_read();
    co_await wait_until(Clock::time_point::max());
  }
}

// Until somebody cancels signal_; true when `limit` came first.
net::awaitable<bool> Connection::wait_until(Clock::time_point limit) {
  signal_.expires_at(limit);
  auto [error] = co_await signal_.async_wait(kAwait);
  co_return !error;
}

void Connection::enter(Phase phase, std::int64_t timeout_ms) {
  if (phase != Phase::body) end_body();
  // A request is waited for from the moment that nothing else was to be done.
  if (phase == Phase::idle || phase == Phase::closing) waiting_since_ = Clock::now();
  phase_ = phase;
  timed_out_ = false;
  deadline_ = timeout_ms > 0 ? Clock::now() + std::chrono::milliseconds(timeout_ms)
                             : Clock::time_point::max();
}

void Connection::start_read() {
  if (reading_ || gone_) return;
  if (phase_ == Phase::reply && unread_.size() >= kEarlyBytesMax) return;
  reading_ = true;
  socket_.async_read_some(net::buffer(incoming_), [this](error_code error, std::size_t bytes) {
    reading_ = false;
    if (error) {
      drop();
    } else {
      on_read(bytes);
    }
  });
}

void Connection::on_read(std::size_t bytes) {
  unread_.append(incoming_.data(), bytes);
  if (phase_ == Phase::body) count_body(bytes);
  if (phase_ == Phase::reply) {
    start_read();  // the coroutine waits for the service: nothing in this is for it
  } else {
    signal_.cancel();
  }
}

void Connection::count_body(std::size_t bytes) {
  body_bytes_ += bytes;
  context_.body_bytes += bytes;
  if (context_.on_bodies_full) context_.on_bodies_full();
}

void Connection::end_body() {
  context_.body_bytes -= std::exchange(body_bytes_, 0);
  refused_body_bytes_ = 0;
}

void Connection::refuse_body() {
  refused_body_bytes_ = body_bytes_;
  // Its memory is free a moment later; until then it must not be found again.
  context_.body_bytes -= std::exchange(body_bytes_, 0);
  signal_.cancel();
}

Connection::Clock::time_point Connection::waiting_since() const {
  if (phase_ != Phase::reply) return waiting_since_;
  const bool is_made = reply_ != nullptr && reply_->outgoing.is_ended();
  return is_made ? reply_->made_at + kFetchTime : Clock::time_point::max();
}

void Connection::on_events() {
  if (reply_ == nullptr || gone_) return;
  reply_->drain_inbox();
  signal_.cancel();
}

void Connection::tick(Clock::time_point now) {
  watch_fetching(now);
  if (writing_) extend_write_deadline(now);
  if (now >= deadline_) {
    deadline_ = Clock::time_point::max();
    timed_out_ = true;
    if (writing_) {
      spdlog::info("cut off a client that took nothing of its reply for {} ms",
                   context_.options.write_timeout_ms);
      drop();
    }
    signal_.cancel();
  }
  if (phase_ == Phase::reply && !reading_ && client_closed_unseen()) drop();
}

// A reply that is made grows no more: for it, as for one that is no stream, there is the write
// timeout.
void Connection::watch_fetching(Clock::time_point now) {
  if (gone_ || reply_ == nullptr) return;
  const OutgoingReply& outgoing = reply_->outgoing;
  if (!outgoing.is_streamed() || outgoing.is_ended()) return;
  std::size_t waiting = outgoing.ready_bytes() + unsent_bytes_;
  if (waiting > 0) waiting += bytes_in_kernel(socket_);
  if (!reply_->fetch_watch.is_behind(waiting, now)) return;
  spdlog::info(
      "cut off a client that left {} bytes of its reply unfetched and more every {} ms, "
      "the limit is {}",
      waiting, context_.options.stream_grace_ms, context_.options.stream_bytes_max);
  drop();
}

// A slow client's socket takes more only when a third of its buffer is free; until then the
// kernel's count of bytes that the client has not acknowledged shows that it does fetch.
void Connection::extend_write_deadline(Clock::time_point now) {
  if (gone_) return;
  const std::size_t queued_bytes = bytes_in_kernel(socket_);
  if (queued_bytes >= least_queued_bytes_) return;
  least_queued_bytes_ = queued_bytes;
  deadline_ = now + std::chrono::milliseconds(context_.options.write_timeout_ms);
}

// While so many early bytes wait that none is read, a close hides behind them; the kernel knows of
// it.
bool Connection::client_closed_unseen() {
  if (gone_) return false;
  pollfd poll_entry = {socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&poll_entry, 1, 0) > 0 &&
         (poll_entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Connection::close_if_idle() {
  if (phase_ == Phase::idle && unread_.empty()) drop();
}

void Connection::drop() {
  gone_ = true;
  if (reply_ != nullptr && !reply_->outgoing.is_ended()) reply_->inbox->abandon();
  error_code ignored;
  socket_.close(ignored);
  signal_.cancel();
}

}  // namespace reprise
