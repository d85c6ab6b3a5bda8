// Listening, the connections' register, and the two ways to end.
#include "http/server.h"

#include <chrono>
#include <csignal>
#include <exception>
#include <unordered_set>
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

#include "http/connection.h"

namespace reprise {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;
using Clock = Connection::Clock;

constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr auto kTick = std::chrono::milliseconds(50);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
// Connections beyond the limit that are told so; the rest is closed without a word.
constexpr std::size_t kRefusalsMax = 64;
// After the service's drain timeout: for the last events to reach their clients.
constexpr auto kDrainGrace = std::chrono::milliseconds(2000);

struct Server::State {
  State(Service& its_service, ServerOptions its_options)
      : service(its_service), options(std::move(its_options)) {}

  Status open();
  net::awaitable<void> accept_for_ever();
  void receive(tcp::socket socket);
  net::awaitable<void> serve_connection(std::unique_ptr<Connection> connection, bool welcome);
  void wait_for_signal();
  void wait_for_tick();
  void stop();
  void begin_drain();
  void drop_all();
  void end_if_done();

  Service& service;
  ServerOptions options;
  // Destroyed after the io_context, whose unfinished coroutines leave it.
  std::unordered_set<Connection*> connections;
  net::io_context io{1};
  ConnectionContext context{io, service, options};
  tcp::acceptor acceptor{io};
  net::signal_set signals{io};
  net::steady_timer ticker{io};
  std::uint16_t port = 0;
  std::size_t welcome_count = 0;  // of the connections: the others are told to come back later
  bool ticking = false;
  Clock::time_point drain_deadline = Clock::time_point::max();
};

// Resolves the host and listens.
Status Server::State::open() {
  const auto trouble = [this](const error_code& error) {
    return fail(Errc::io, fmt::format("cannot listen on {} port {}: {}", options.host, options.port,
                                      error.message()));
  };
  error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return trouble(error);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  if (!error) port = acceptor.local_endpoint(error).port();
  if (error) return trouble(error);
  return {};
}

net::awaitable<void> Server::State::accept_for_ever() {
  net::steady_timer pause(io);
  while (acceptor.is_open()) {
    auto [error, socket] = co_await acceptor.async_accept(kAwait);
    if (!error) {
      receive(std::move(socket));
    } else if (acceptor.is_open()) {  // out of descriptors, say: connections that end will help
      spdlog::warn("cannot accept a connection: {}", error.message());
      pause.expires_after(kAcceptPause);
      co_await pause.async_wait(kAwait);
    }
  }
}

void Server::State::receive(tcp::socket socket) {
  if (connections.size() >= options.connections_max + kRefusalsMax) return;
  auto connection = std::make_unique<Connection>(context, std::move(socket));
  connections.insert(connection.get());
  if (!ticking) wait_for_tick();
  const bool welcome = welcome_count < options.connections_max;
  welcome_count += welcome ? 1 : 0;
  net::co_spawn(io, serve_connection(std::move(connection), welcome), net::detached);
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
  connections.erase(connection.get());
  welcome_count -= welcome ? 1 : 0;
  end_if_done();
}

void Server::State::wait_for_tick() {
  ticking = true;
  ticker.expires_after(kTick);
  ticker.async_wait([this](error_code) {
    ticking = false;
    const auto now = Clock::now();
    if (now >= drain_deadline) drop_all();
    for (Connection* connection : connections) connection->tick(now);
    if (!connections.empty()) wait_for_tick();
  });
}

void Server::State::wait_for_signal() {
  signals.async_wait([this](error_code error, int number) {
    if (error) return;
    if (number == SIGHUP) {
      spdlog::info("SIGHUP{}", options.on_hangup ? "" : ": nothing to read again, ignored");
      if (options.on_hangup) options.on_hangup();
    } else {
      spdlog::info("{}: {}", number == SIGINT ? "SIGINT" : "SIGTERM",
                   context.draining ? "stopping at once" : "finishing what runs, then stopping");
      stop();
    }
    if (!context.draining || !connections.empty()) wait_for_signal();
  });
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
  for (Connection* connection : connections) connection->close_if_idle();
  end_if_done();
}

void Server::State::drop_all() {
  for (Connection* connection : connections) connection->drop();
}

// Nothing is left to wait for: what would keep run() from returning is taken away.
void Server::State::end_if_done() {
  if (!context.draining || !connections.empty()) return;
  error_code ignored;
  signals.cancel(ignored);
  ticker.cancel();
}

Result<std::unique_ptr<Server>> Server::listen(Service& service, ServerOptions options) {
  auto state = std::make_unique<State>(service, std::move(options));
  TRY(state->open());
  return std::make_unique<Server>(std::move(state));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() = default;

std::uint16_t Server::port() const {
  return state_->port;
}

void Server::run(bool handle_signals) {
  State& state = *state_;
  if (handle_signals) {
    error_code error;
    state.signals.add(SIGINT, error);
    if (!error) state.signals.add(SIGTERM, error);
    if (!error) state.signals.add(SIGHUP, error);
    if (error) spdlog::warn("signals are not handled: {}", error.message());
    state.wait_for_signal();
  }
  net::co_spawn(state.io, state.accept_for_ever(), net::detached);
  state.io.run();
}

void Server::stop() {
  net::post(state_->io, [state = state_.get()] { state->stop(); });
}

}  // namespace reprise
