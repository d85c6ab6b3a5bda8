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

// What a client sent, fit for a line of JSON: clipped, and only printable ASCII.
std::string quoted(std::string_view value) {
  constexpr std::size_t kBytesMax = 64;
  std::string text(value.substr(0, kBytesMax));
  for (char& c : text) {
    if (c < ' ' || c > '~' || c == '"' || c == '\\') c = '?';
  }
  return text;
}

bool takes_body(beast_http::verb method) {
  using beast_http::verb;
  return method == verb::post || method == verb::put || method == verb::patch;
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

RequestTrouble header_too_large(std::size_t come, std::size_t limit) {
  return {431, "request_header_fields_too_large",
          fmt::format("The request's header is larger than the limit of {} bytes: {} have come.",
                      limit, come)};
}

RequestTrouble bad_request(std::string_view detail) {
  return {400, "bad_request", fmt::format("The request is not valid HTTP/1.1: {}.", detail)};
}

// Of a chunked body nobody knows the length; what has come of it is known.
RequestTrouble body_too_large(const Parser& parser, std::size_t limit) {
  const auto& request = parser.get();
  const auto announced = request[beast_http::field::content_length];
  if (!announced.empty()) {
    return {413, "request_too_large",
            fmt::format("The request's body is {} bytes long, the limit is {} bytes.",
                        quoted(as_std(announced)), limit)};
  }
  return {413, "request_too_large",
          fmt::format("The request's body is longer than the limit of {} bytes: {} bytes have come "
                      "and the next chunk goes beyond it.",
                      limit, request.body().size())};
}

RequestTrouble parse_trouble(const boost::system::error_code& error, const Parser& parser,
                             std::size_t body_bytes_max) {
  if (error == beast_http::error::body_limit) return body_too_large(parser, body_bytes_max);
  return bad_request(error.message());
}

// The first value of a header that is not `allowed`; empty: there is none.
std::string_view other_value(const Parser& parser, beast_http::field name,
                             std::string_view allowed) {
  const auto [begin, end] = parser.get().equal_range(name);
  for (auto header = begin; header != end; ++header) {
    const std::string_view value = as_std(header->value());
    if (!value.empty() && !iequals(value, allowed)) return value;
  }
  return {};
}

// Checks of a complete header; status 0 when there is nothing wrong.
RequestTrouble header_trouble(const Parser& parser) {
  using beast_http::field;
  const auto& request = parser.get();
  const bool http_1_0 = request.version() < 11;
  if (const auto hosts = request.count(field::host); hosts > 1 || (hosts == 0 && !http_1_0)) {
    return bad_request(fmt::format("got {} Host headers, expected one", hosts));
  }
  // Equal ones too: whoever stands in front of us may have read another of them.
  const std::string_view length = as_std(request[field::content_length]);
  if (const auto lengths = request.count(field::content_length);
      lengths > 1 || length.find(',') != std::string_view::npos) {
    return bad_request(
        fmt::format("got {} Content-Length headers, the first '{}', expected a number", lengths,
                    quoted(length)));
  }
  const auto codings = request.count(field::transfer_encoding);
  if (codings > 0 && http_1_0) return bad_request("Transfer-Encoding in an HTTP/1.0 request");
  if (codings > 1 || (codings == 1 && !iequals(request[field::transfer_encoding], "chunked"))) {
    return {501, "unsupported_transfer_encoding",
            fmt::format("Transfer-Encoding: got '{}', expected 'chunked' or none.",
                        quoted(as_std(request[field::transfer_encoding])))};
  }
  if (const auto encoding = other_value(parser, field::content_encoding, "identity");
      !encoding.empty()) {
    return {415, "unsupported_encoding",
            fmt::format("Content-Encoding: got '{}', expected none: send the body uncompressed.",
                        quoted(encoding))};
  }
  if (const auto expect = other_value(parser, field::expect, "100-continue"); !expect.empty()) {
    return {417, "expectation_failed",
            fmt::format("Expect: got '{}', expected '100-continue' or none.", quoted(expect))};
  }
  // A type without a length promises a body of which nobody could say where it ends.
  const bool framed = codings > 0 || request.count(field::content_length) > 0;
  if (!framed && request.count(field::content_type) > 0 && takes_body(request.method())) {
    return {411, "length_required",
            "The request has a Content-Type but neither Content-Length nor "
            "Transfer-Encoding: chunked; expected one of them."};
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
    if (error == beast_http::error::header_limit)
      return refuse(header_too_large(state.header_bytes + fresh.size(), state.header_bytes_max));
    return refuse(parse_trouble(error, parser, state.body_bytes_max));
  }
  if (in_header) {
    state.header_bytes += taken;
    const std::size_t waiting = parser.is_header_done() ? 0 : fresh.size() - taken;
    if (state.header_bytes + waiting > state.header_bytes_max) {
      return refuse(header_too_large(state.header_bytes + waiting, state.header_bytes_max));
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

void RequestReader::drop_body() {
  std::string().swap(state_->parser.get().body());
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
