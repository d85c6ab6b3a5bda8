// Listening, the connections' register, and the two ways to end.
#include "http/server.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <memory>
#include <poll.h>
#include <sys/resource.h>
#include <unordered_map>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include "base/check.h"
#include "http/connection.h"

namespace reprise {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;
using Clock = Connection::Clock;

constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr auto kTick = std::chrono::milliseconds(50);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kLogPause = std::chrono::seconds(10);
// Connections beyond the limit that are told so; the rest is closed without a word.
constexpr std::size_t kRefusalsMax = 64;
// Files and the like, beside connections.
constexpr std::size_t kOtherDescriptors = 64;
// After the service's drain timeout: for the last events to reach their clients.
constexpr auto kDrainGrace = std::chrono::milliseconds(2000);

struct Server::State {
  State(Service& its_service, ServerOptions its_options)
      : service(its_service), options(std::move(its_options)) {
    context.on_bodies_full = [this] { make_room_for_bodies(); };
  }

  Status open();
  net::awaitable<void> accept_for_ever();
  void receive(tcp::socket socket);
  bool is_anyone_waiting();
  bool make_place();
  void make_room_for_bodies();
  net::awaitable<void> serve_connection(std::unique_ptr<Connection> connection, bool welcome);
  void wait_for_signal();
  void wait_for_tick();
  void log_given_way(Clock::time_point now);
  std::string drain_words() const;
  void stop();
  void begin_drain();
  void drop_all();
  void end_if_done();

  Service& service;
  ServerOptions options;
  // Destroyed after the io_context, whose unfinished coroutines leave it.
  enum class Place { taken, given_up, none };  // none: it is told that there is none
  std::unordered_map<Connection*, Place> connections;
  net::io_context io{1};
  ConnectionContext context{io, service, options};
  tcp::acceptor acceptor{io};
  net::signal_set signals{io};
  net::steady_timer ticker{io};
  std::uint16_t port = 0;
  std::size_t places_taken = 0;
  std::size_t given_way = 0;  // connections that had to, since it was last logged
  bool ticking = false;
  Clock::time_point next_log = Clock::time_point::min();
  Clock::time_point drain_deadline = Clock::time_point::max();
};

namespace {

// Every connection needs a descriptor; systems start programs with 1024 and let them raise it.
// Returns how many of `connections_max` there can be.
std::size_t allow_descriptors(std::size_t connections_max) {
  constexpr rlim_t kOthers = kRefusalsMax + kOtherDescriptors;
  const rlim_t wanted = connections_max + kOthers;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return connections_max;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return connections_max;
  const std::size_t possible = std::max<rlim_t>(limit.rlim_cur, kOthers + 1) - kOthers;
  spdlog::warn(
      "{} connections at once need {} file descriptors, the hard limit is {}: {} are served",
      connections_max, wanted, limit.rlim_max, possible);
  return possible;
}

// Resolves the host and listens. Returns the port.
Result<std::uint16_t> open_acceptor(net::io_context& io, tcp::acceptor& acceptor,
                                    const std::string& host, std::uint16_t asked) {
  const auto trouble = [&](const error_code& error) {
    return fail(Errc::io,
                fmt::format("cannot listen on {} port {}: {}", host, asked, error.message()));
  };
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(
      host, std::to_string(asked), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return trouble(error);
  std::uint16_t port = asked;
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  if (!error) port = acceptor.local_endpoint(error).port();
  if (error) return trouble(error);
  return port;
}

}  // namespace

Status Server::State::open() {
  TRY_ASSIGN(port, open_acceptor(io, acceptor, options.host, options.port));
  return {};
}

net::awaitable<void> Server::State::accept_for_ever() {
  net::steady_timer pause(io);
  bool in_trouble = false;
  while (acceptor.is_open()) {
    auto [error, socket] = co_await acceptor.async_accept(kAwait);
    if (!error) {
      in_trouble = false;
      receive(std::move(socket));
    } else if (acceptor.is_open()) {  // out of descriptors, say: connections that end will help
      if (!in_trouble) spdlog::warn("cannot accept a connection: {}", error.message());
      in_trouble = true;
      if (is_anyone_waiting() && make_place()) continue;
      pause.expires_after(kAcceptPause);
      co_await pause.async_wait(kAwait);
    }
  }
}

void Server::State::receive(tcp::socket socket) {
  if (connections.size() >= options.connections_max + kRefusalsMax) return;
  const bool welcome = places_taken < options.connections_max || make_place();
  auto connection = std::make_unique<Connection>(context, std::move(socket));
  connections.emplace(connection.get(), welcome ? Place::taken : Place::none);
  places_taken += welcome ? 1 : 0;
  if (!ticking) wait_for_tick();
  net::co_spawn(io, serve_connection(std::move(connection), welcome), net::detached);
}

// The system refuses a descriptor even where there is nobody to accept.
bool Server::State::is_anyone_waiting() {
  pollfd entry = {acceptor.native_handle(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

// Whoever keeps the server waiting longest gives way. False: nobody does.
bool Server::State::make_place() {
  auto longest = connections.end();
  auto since = Clock::now();
  for (auto entry = connections.begin(); entry != connections.end(); ++entry) {
    if (entry->second != Place::taken || entry->first->waiting_since() >= since) continue;
    longest = entry;
    since = entry->first->waiting_since();
  }
  if (longest == connections.end()) return false;
  longest->second = Place::given_up;
  --places_taken;
  ++given_way;
  longest->first->drop();
  return true;
}

// The largest of the unfinished bodies give way until the others fit.
void Server::State::make_room_for_bodies() {
  const std::size_t limit = options.unfinished_bodies_max * service.options().body_bytes_max;
  while (context.body_bytes > limit) {
    Connection* largest = nullptr;
    for (const auto& [connection, place] : connections) {
      if (largest == nullptr || connection->body_bytes() > largest->body_bytes())
        largest = connection;
    }
    CHECK(largest != nullptr && largest->body_bytes() > 0);
    largest->refuse_body();
  }
}

net::awaitable<void> Server::State::serve_connection(std::unique_ptr<Connection> connection,
                                                     bool welcome) {
  try {
    if (welcome) {
      co_await connection->serve();
    } else {
      co_await connection->refuse();
    }
  } catch (const std::exception& error) {  // a library's; it ends this connection and nothing else
    spdlog::error("a connection ended: {}", error.what());
  }
  co_await connection->finish();
  places_taken -= connections.at(connection.get()) == Place::taken ? 1 : 0;
  connections.erase(connection.get());
  end_if_done();
}

void Server::State::wait_for_tick() {
  ticking = true;
  ticker.expires_after(kTick);
  ticker.async_wait([this](error_code) {
    ticking = false;
    const auto now = Clock::now();
    if (now >= drain_deadline) drop_all();
    for (const auto& [connection, place] : connections) connection->tick(now);
    log_given_way(now);
    if (!connections.empty()) wait_for_tick();
  });
}

// Once in a while, not once each: there may be thousands a second.
void Server::State::log_given_way(Clock::time_point now) {
  if (given_way == 0 || now < next_log) return;
  spdlog::warn(
      "{} waiting connections gave way to new ones: more than {}, or than there are file "
      "descriptors",
      given_way, options.connections_max);
  given_way = 0;
  next_log = now + kLogPause;
}

void Server::State::wait_for_signal() {
  signals.async_wait([this](error_code error, int number) {
    if (error) return;
    if (number == SIGHUP) {
      spdlog::info("SIGHUP{}", options.on_hangup ? "" : ": nothing to read again, ignored");
      if (options.on_hangup) options.on_hangup();
    } else {
      spdlog::info("{}: {}", number == SIGINT ? "SIGINT" : "SIGTERM",
                   context.draining ? std::string("stopping at once") : drain_words());
      stop();
    }
    if (!context.draining || !connections.empty()) wait_for_signal();
  });
}

std::string Server::State::drain_words() const {
  return fmt::format(
      "finishing what runs, for at most {} s, then stopping; a second signal ends at once",
      service.options().drain_timeout_ms / 1000);
}

void Server::State::stop() {
  if (context.draining) {
    drop_all();
  } else {
    begin_drain();
  }
}

void Server::State::begin_drain() {
  context.draining = true;
  drain_deadline =
      Clock::now() + std::chrono::milliseconds(service.options().drain_timeout_ms) + kDrainGrace;
  error_code ignored;
  acceptor.close(ignored);
  service.begin_drain();
  for (const auto& [connection, place] : connections) connection->close_if_idle();
  end_if_done();
}

void Server::State::drop_all() {
  for (const auto& [connection, place] : connections) connection->drop();
}

// Nothing is left to wait for: what would keep run() from returning is taken away.
void Server::State::end_if_done() {
  if (!context.draining || !connections.empty()) return;
  error_code ignored;
  signals.cancel(ignored);
  ticker.cancel();
}

Result<std::unique_ptr<Server>> Server::listen(Service& service, ServerOptions options) {
  options.connections_max = allow_descriptors(options.connections_max);
  auto state = std::make_unique<State>(service, std::move(options));
  TRY(state->open());
  return std::make_unique<Server>(std::move(state));
}

Status Server::check_address(const std::string& host, std::uint16_t port) {
  net::io_context io(1);
  tcp::acceptor acceptor(io);
  TRY(open_acceptor(io, acceptor, host, port));
  return {};
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() = default;

std::uint16_t Server::port() const {
  return state_->port;
}

namespace {

// Asio gives a signal back its deadly default with its last registration, and then one more signal
// while memory is given back would make a clean end look like a crash. This registration, which
// nobody waits on, stays as long as the process.
void keep_signals_from_killing() {
  struct Kept {
    net::io_context io{1};
    net::signal_set signals{io, SIGINT, SIGTERM, SIGHUP};
  };
  [[maybe_unused]] static const Kept* const kept = std::make_unique<Kept>().release();
}

}  // namespace

void Server::run(bool handle_signals) {
  State& state = *state_;
  if (handle_signals) {
    error_code error;
    state.signals.add(SIGINT, error);
    if (!error) state.signals.add(SIGTERM, error);
    if (!error) state.signals.add(SIGHUP, error);
    if (error) spdlog::warn("signals are not handled: {}", error.message());
    state.wait_for_signal();
    keep_signals_from_killing();
  }
  net::co_spawn(state.io, state.accept_for_ever(), net::detached);
  state.io.run();
}

void Server::stop() {
  net::post(state_->io, [state = state_.get()] { state->stop(); });
}

}  // namespace reprise
