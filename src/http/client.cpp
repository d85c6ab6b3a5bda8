// Beast on an io_context of the call's own: each step is started and run to its end or its timeout.
#include "http/client.h"

#include <cctype>
#include <charconv>
#include <exception>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <fmt/core.h>

#include "base/printable.h"
#include "http/event_splitter.h"

namespace reprise {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using net::ip::tcp;
using OnEvent = std::function<bool(const ServerSentEvent&)>;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// One request and its reply.
class Exchange {
 public:
  Exchange(const HttpAddress& address, const HttpRequest& request)
      : address_(address), request_(request) {
    parser_.body_limit(boost::none);
  }

  Result<HttpReply> run(const OnEvent* on_event) {
    TRY(connect());
    TRY(send());
    TRY(read_head());
    const bool events =
        on_event && lower_case(reply_.header("content-type")).starts_with("text/event-stream");
    TRY(events ? read_events(*on_event) : read_body());
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    return std::move(reply_);
  }

 private:
  // Runs what `start(handler)` begins, within the timeout.
  template <class Start>
  error_code wait_for(Start start) {
    error_code outcome;
    stream_.expires_after(request_.timeout);
    start([&outcome](error_code error, auto&&...) { outcome = error; });
    io_.restart();
    io_.run();
    return outcome;
  }

  std::unexpected<Error> trouble(std::string_view doing, const error_code& error) const {
    std::string what = error.message();
    Errc code = Errc::io;
    if (error == beast::error::timeout) {
      what = fmt::format("nothing for {} ms", request_.timeout.count());
    } else if (error == http::error::end_of_stream || error == http::error::partial_message ||
               error == net::error::eof) {
      what = "the server closed the connection";
    } else if (error.category() == http::make_error_code(http::error::bad_version).category()) {
      code = Errc::corrupt;
    }
    return fail(code, fmt::format("{} port {}: {}: {}", address_.host, address_.port, doing, what));
  }

  Status connect() {
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(address_.host, std::to_string(address_.port),
                                        tcp::resolver::numeric_service, error);
    if (error) return trouble("cannot resolve the name", error);
    error = wait_for([&](auto handler) { stream_.async_connect(found, std::move(handler)); });
    if (error) return trouble("cannot connect", error);
    stream_.socket().set_option(tcp::no_delay(true), error);
    return {};
  }

  Status send() {
    http::request<http::string_body> message;
    message.version(11);
    message.method_string(request_.method);
    message.target(address_.prefix + request_.path);
    message.set(http::field::host, address_.authority());
    message.set(http::field::connection, "close");
    message.set(http::field::user_agent, "reprise");
    if (!request_.bearer_key.empty())
      message.set(http::field::authorization, "Bearer " + request_.bearer_key);
    if (!request_.json.empty()) message.set(http::field::content_type, "application/json");
    message.body() = request_.json;
    message.prepare_payload();
    const error_code error =
        wait_for([&](auto handler) { http::async_write(stream_, message, std::move(handler)); });
    if (error) return trouble("cannot send the request", error);
    return {};
  }

  Status read_head() {
    parser_.skip(request_.method == "HEAD");
    const error_code error = wait_for([&](auto handler) {
      http::async_read_header(stream_, buffer_, parser_, std::move(handler));
    });
    if (error) return trouble("no reply", error);
    reply_.status = static_cast<int>(parser_.get().result_int());
    for (const auto& field : parser_.get()) {
      reply_.headers.emplace_back(lower_case(std::string_view(field.name_string())),
                                  std::string(field.value()));
    }
    return {};
  }

  // The next bytes of the body; empty at its end.
  Result<std::string> read_some() {
    while (!parser_.is_done()) {
      const error_code error = wait_for([&](auto handler) {
        http::async_read_some(stream_, buffer_, parser_, std::move(handler));
      });
      if (error) return trouble("the reply broke off", error);
      std::string bytes = std::move(parser_.get().body());
      parser_.get().body().clear();
      if (!bytes.empty()) return bytes;
    }
    // What came in one piece with the head.
    std::string rest = std::move(parser_.get().body());
    parser_.get().body().clear();
    return rest;
  }

  Status read_body() {
    for (;;) {
      TRY_ASSIGN(const std::string bytes, read_some());
      if (bytes.empty()) return {};
      reply_.body += bytes;
    }
  }

  Status read_events(const OnEvent& on_event) {
    EventSplitter splitter;
    for (;;) {
      TRY_ASSIGN(const std::string bytes, read_some());
      if (bytes.empty()) return {};
      const auto now = std::chrono::steady_clock::now();
      const auto pass_on = [&](std::string_view name, std::string_view data) {
        if (data != "[DONE]")
          return on_event(ServerSentEvent{std::string(name), std::string(data), now});
        reply_.saw_done = true;
        return true;
      };
      if (!splitter.feed(bytes, pass_on)) return {};
    }
  }

  const HttpAddress& address_;
  const HttpRequest& request_;
  net::io_context io_{1};
  beast::tcp_stream stream_{io_};
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  HttpReply reply_;
};

Result<HttpReply> exchange(const HttpAddress& address, const HttpRequest& request,
                           const OnEvent* on_event) {
  try {
    return Exchange(address, request).run(on_event);
  } catch (const std::exception& error) {  // a library's: a header that is no header, say
    return fail(Errc::invalid_argument,
                fmt::format("{} port {}: {}", address.host, address.port, error.what()));
  }
}

// For people, without what stands before an @: it may be a password.
std::string shown(std::string_view url) {
  const std::size_t at = url.rfind('@');
  if (at == std::string_view::npos) return printable(url);
  return "..." + printable(url.substr(at));
}

std::unexpected<Error> no_url(std::string_view url) {
  return fail(Errc::invalid_argument,
              fmt::format("got \"{}\", expected http://HOST:PORT or http://[V6]:PORT", shown(url)));
}

}  // namespace

Result<HttpAddress> HttpAddress::parse(std::string_view url) {
  if (lower_case(url.substr(0, 8)) == "https://") {
    return fail(
        Errc::unsupported,
        fmt::format("got \"{}\": https is not spoken here, expected http://HOST:PORT", shown(url)));
  }
  if (lower_case(url.substr(0, 7)) != "http://") return no_url(url);
  HttpAddress address;
  std::string_view rest = url.substr(7);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  address.prefix = rest.substr(slash);
  while (address.prefix.ends_with('/')) address.prefix.pop_back();
  rest = rest.substr(0, slash);
  const bool bracket = rest.starts_with('[');
  const std::size_t host_end = bracket ? rest.find(']') : std::min(rest.find(':'), rest.size());
  if (host_end == std::string_view::npos) return no_url(url);
  address.host = rest.substr(bracket ? 1 : 0, host_end - (bracket ? 1 : 0));
  rest.remove_prefix(host_end + (bracket ? 1 : 0));
  const bool odd = address.host.find_first_of("@?# \t\r\n%") != std::string::npos ||
                   address.prefix.find_first_of("?# \t\r\n") != std::string::npos;
  if (address.host.empty() || odd) return no_url(url);
  if (rest.empty()) return address;
  rest.remove_prefix(1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), address.port);
  const bool whole = error == std::errc{} && end == rest.data() + rest.size();
  if (!whole || address.port == 0) return no_url(url);
  return address;
}

std::string HttpAddress::authority() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::string_view HttpReply::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

Result<HttpReply> send_request(const HttpAddress& address, const HttpRequest& request) {
  return exchange(address, request, nullptr);
}

Result<HttpReply> stream_request(const HttpAddress& address, const HttpRequest& request,
                                 const OnEvent& on_event) {
  return exchange(address, request, &on_event);
}

}  // namespace reprise
