// The request parser is Beast's; the checks that it leaves to its user are here.
#include "http/request_reader.h"

#include <algorithm>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/core.h>

#include "base/check.h"

namespace reprise {

namespace beast_http = boost::beast::http;
using boost::beast::iequals;
using Parser = beast_http::request_parser<beast_http::string_body>;

struct RequestReader::State {
  State(std::size_t header_max, std::size_t body_max)
      : header_bytes_max(header_max), body_bytes_max(body_max) {}

  Parser parser;
  std::size_t header_bytes_max;
  std::size_t body_bytes_max;
  std::size_t header_bytes =
      0;  // consumed; Beast's own limit forgets them when they come in pieces
  bool started = false;
  bool expects_continue = false;
  RequestTrouble trouble;
};

namespace {

std::string_view as_std(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Clients that think we are a proxy send the whole address (RFC 9112 section 3.2.2): path and query
// are what counts.
std::string origin_form(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!iequals({target.data(), std::min(target.size(), scheme.size())},
                 {scheme.data(), scheme.size()})) {
      continue;
    }
    const std::size_t path = target.find_first_of("/?", scheme.size());
    if (path == std::string_view::npos) return "/";
    return (target[path] == '?' ? "/" : "") + std::string(target.substr(path));
  }
  return std::string(target);
}

RequestTrouble header_too_large(std::size_t limit) {
  return {431, "request_header_fields_too_large",
          fmt::format("The request's header is larger than the limit of {} bytes.", limit)};
}

RequestTrouble bad_request(std::string_view detail) {
  return {400, "bad_request", fmt::format("The request is not valid HTTP/1.1: {}.", detail)};
}

RequestTrouble parse_trouble(const boost::system::error_code& error, std::size_t header_bytes_max,
                             std::size_t body_bytes_max) {
  if (error == beast_http::error::header_limit) return header_too_large(header_bytes_max);
  if (error == beast_http::error::body_limit) {
    return {
        413, "request_too_large",
        fmt::format("The request's body is larger than the limit of {} bytes.", body_bytes_max)};
  }
  return bad_request(error.message());
}

// Checks of a complete header; status 0 when there is nothing wrong.
RequestTrouble header_trouble(const Parser& parser) {
  using beast_http::field;
  const auto& request = parser.get();
  const bool http_1_0 = request.version() < 11;
  if (const auto hosts = request.count(field::host); hosts > 1 || (hosts == 0 && !http_1_0)) {
    return bad_request(fmt::format("got {} Host headers, expected one", hosts));
  }
  const auto codings = request.count(field::transfer_encoding);
  if (codings > 0 && http_1_0) return bad_request("Transfer-Encoding in an HTTP/1.0 request");
  if (codings > 1 || (codings == 1 && !iequals(request[field::transfer_encoding], "chunked"))) {
    return {501, "unsupported_transfer_encoding",
            "The only Transfer-Encoding that is understood is 'chunked'."};
  }
  const auto encoding = request[field::content_encoding];
  if (!encoding.empty() && !iequals(encoding, "identity")) {
    return {415, "unsupported_content_encoding",
            "Content-Encoding must be 'identity': send the body uncompressed."};
  }
  const auto expect = request[field::expect];
  if (!expect.empty() && !iequals(expect, "100-continue")) {
    return {417, "expectation_failed", "The only Expect that is understood is '100-continue'."};
  }
  return {};
}

}  // namespace

RequestReader::RequestReader(std::size_t header_bytes_max, std::size_t body_bytes_max)
    : state_(std::make_unique<State>(header_bytes_max, body_bytes_max)) {
  const auto limit = std::min<std::size_t>(header_bytes_max, UINT32_MAX);
  state_->parser.header_limit(static_cast<std::uint32_t>(limit));
  state_->parser.body_limit(body_bytes_max);
}

RequestReader::~RequestReader() = default;

RequestReader::Progress RequestReader::feed(std::string_view bytes, std::size_t& consumed) {
  State& state = *state_;
  Parser& parser = state.parser;
  CHECK(!parser.is_done());
  consumed = 0;
  const auto refuse = [&state](RequestTrouble trouble) {
    state.trouble = std::move(trouble);
    return Progress::failed;
  };
  if (!state.started) {  // empty lines before a request are skipped (RFC 9112 section 2.2)
    while (consumed < bytes.size() && (bytes[consumed] == '\r' || bytes[consumed] == '\n'))
      ++consumed;
    if (consumed == bytes.size()) return Progress::need_more;
    state.started = true;
  }
  const bool in_header = !parser.is_header_done();
  boost::system::error_code error;
  const std::string_view fresh = bytes.substr(consumed);
  const std::size_t taken = parser.put({fresh.data(), fresh.size()}, error);
  consumed += taken;
  if (error && error != beast_http::error::need_more) {
    return refuse(parse_trouble(error, state.header_bytes_max, state.body_bytes_max));
  }
  if (in_header) {
    state.header_bytes += taken;
    const std::size_t waiting = parser.is_header_done() ? 0 : fresh.size() - taken;
    if (state.header_bytes + waiting > state.header_bytes_max) {
      return refuse(header_too_large(state.header_bytes_max));
    }
    if (!parser.is_header_done()) return Progress::need_more;
    if (RequestTrouble trouble = header_trouble(parser); trouble.status != 0)
      return refuse(trouble);
    parser.eager(true);  // from here on, everything that is there
    if (parser.is_done()) return Progress::done;
    state.expects_continue =
        parser.get().version() >= 11 && !parser.get()[beast_http::field::expect].empty();
    return Progress::header_done;
  }
  if (parser.is_done()) return Progress::done;
  // Chunk extensions and trailers have no limit in Beast; they are header-like, so that limit is
  // theirs.
  if (taken == 0 && fresh.size() > state.header_bytes_max) {
    return refuse(bad_request("a chunk header or trailer is too long"));
  }
  return Progress::need_more;
}

bool RequestReader::started() const {
  return state_->started;
}
const RequestTrouble& RequestReader::trouble() const {
  return state_->trouble;
}
bool RequestReader::keep_alive() const {
  return state_->parser.keep_alive();
}
bool RequestReader::is_http_1_0() const {
  return state_->parser.get().version() < 11;
}
bool RequestReader::is_head() const {
  return state_->parser.get().method() == beast_http::verb::head;
}
bool RequestReader::expects_continue() const {
  return state_->expects_continue;
}

ServiceRequest RequestReader::take() {
  CHECK(state_->parser.is_done());
  auto& message = state_->parser.get();
  ServiceRequest request;
  request.method = is_head() ? "GET" : std::string(as_std(message.method_string()));
  request.target = origin_form(as_std(message.target()));
  for (const auto& header : message) {
    request.headers.emplace_back(lower_case(as_std(header.name_string())),
                                 std::string(as_std(header.value())));
  }
  request.body = std::move(message.body());
  return request;
}

}  // namespace reprise
