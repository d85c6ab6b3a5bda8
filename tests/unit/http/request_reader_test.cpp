// Requests from bytes: whatever way they are cut, and with everything that can be wrong with them.
#include "http/request_reader.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace reprise {
namespace {

using Progress = RequestReader::Progress;

constexpr std::size_t kHeaderMax = 4096;
constexpr std::size_t kBodyMax = 1000;

struct Outcome {
  Progress progress = Progress::need_more;
  RequestTrouble trouble;
  ServiceRequest request;
  std::string rest;  // bytes behind the request
};

// Feeds `bytes` in pieces of `piece`, keeping what was not consumed, as a connection does.
Outcome read(std::string_view bytes, std::size_t piece) {
  RequestReader reader(kHeaderMax, kBodyMax);
  Outcome outcome;
  std::string unread;
  const auto over = [&] {
    return outcome.progress == Progress::done || outcome.progress == Progress::failed;
  };
  while (!over() && !bytes.empty()) {
    unread += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    do {
      std::size_t consumed = 0;
      outcome.progress = reader.feed(unread, consumed);
      unread.erase(0, consumed);
    } while (outcome.progress == Progress::header_done && !unread.empty());
  }
  if (outcome.progress == Progress::failed) outcome.trouble = reader.trouble();
  if (outcome.progress == Progress::done) outcome.request = reader.take();
  outcome.rest = unread + std::string(bytes);
  return outcome;
}

const std::size_t kPieces[] = {1, 2, 3, 7, 64, 100'000};

TEST(RequestReader, TheCutOfTheBytesDoesNotMatter) {
  const std::map<std::string, std::string> body_of = {
      {"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", ""},
      {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "hello"},
      {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", ""},
      {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
       "3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\n\r\n",
       "hello"},
      {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", ""},
      {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
       "1\r\nh\r\n0\r\nTrailer: t\r\n\r\n",
       "h"},
      {"\r\n\r\nGET /a HTTP/1.0\r\n\r\n", ""},
  };
  for (const auto& [bytes, body] : body_of) {
    for (const std::size_t piece : kPieces) {
      const Outcome outcome = read(bytes, piece);
      EXPECT_EQ(outcome.progress, Progress::done) << bytes << " in pieces of " << piece;
      EXPECT_EQ(outcome.request.target, "/a");
      EXPECT_EQ(outcome.request.body, body);
      EXPECT_EQ(outcome.rest, "");
    }
  }
}

TEST(RequestReader, LeavesTheNextRequestAlone) {
  const std::string first = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";
  const std::string second = "GET /b HTTP/1.1\r\nHost: x\r\n\r\n";
  for (const std::size_t piece : kPieces) {
    const Outcome outcome = read(first + second, piece);
    EXPECT_EQ(outcome.request.body, "hi");
    EXPECT_EQ(outcome.rest, second);
  }
}

TEST(RequestReader, HeaderNamesBecomeLowerCaseAndHeadBecomesGet) {
  const Outcome outcome =
      read("HEAD /v1/models?a=B HTTP/1.1\r\nHOST: Up\r\nX-Thing:  a b \r\n\r\n", 100);
  EXPECT_EQ(outcome.request.method, "GET");
  EXPECT_EQ(outcome.request.target, "/v1/models?a=B");
  const std::vector<std::pair<std::string, std::string>> headers = {{"host", "Up"},
                                                                    {"x-thing", "a b"}};
  EXPECT_EQ(outcome.request.headers, headers);
}

TEST(RequestReader, AWholeAddressBecomesItsPath) {
  const std::map<std::string, std::string> path_of = {{"http://x:1/a?b=c", "/a?b=c"},
                                                      {"HTTPS://x", "/"},
                                                      {"http://x?b", "/?b"},
                                                      {"/http://x/a", "/http://x/a"},
                                                      {"*", "*"}};
  for (const auto& [target, path] : path_of) {
    EXPECT_EQ(read("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n", 100).request.target, path);
  }
}

TEST(RequestReader, UnknownMethodsAreTheServicesAffair) {
  EXPECT_EQ(read("BREW /pot HTTP/1.1\r\nHost: x\r\n\r\n", 100).request.method, "BREW");
}

struct BadRequest {
  const char* name;
  std::string bytes;
  int status;
};

std::vector<BadRequest> bad_requests() {
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  return {
      {"not HTTP", "\x16\x03\x01\x02 hello\r\n\r\n", 400},
      {"no target", "GET\r\n\r\n", 400},
      {"no version", "GET /\r\nHost: x\r\n\r\n", 400},
      {"HTTP/2.0", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400},
      {"HTTP/0.9", "GET / HTTP/0.9\r\n\r\n", 400},
      {"space in target", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two Hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
      {"no colon", post + "Nonsense\r\n\r\n", 400},
      {"space before colon", post + "Thing : a\r\n\r\n", 400},
      {"control byte in value", post + "Thing: a\x01\r\n\r\n", 400},
      {"NUL in value", post + "Thing: a" + std::string(1, '\0') + "\r\n\r\n", 400},
      {"length not a number", post + "Content-Length: ten\r\n\r\n", 400},
      {"negative length", post + "Content-Length: -1\r\n\r\n", 400},
      {"length overflows", post + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"two lengths", post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
      {"two equal lengths", post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab", 400},
      {"a list of lengths", post + "Content-Length: 2, 2\r\n\r\nab", 400},
      {"length and chunked", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"chunked and length", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
      {"chunked twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunk size not hex", chunked + "zz\r\nab\r\n0\r\n\r\n", 400},
      {"chunk size overflows", chunked + "fffffffffffffffff\r\n", 400},
      {"chunk without line end", chunked + "2\r\nabcd\r\n0\r\n\r\n", 400},
      {"type without length", post + "Content-Type: application/json\r\n\r\n{}", 411},
      {"type without length in 1.0", "POST / HTTP/1.0\r\nContent-Type: a/b\r\n\r\n{}", 411},
      {"deflate in a second line",
       post + "Content-Encoding: identity\r\nContent-Encoding: deflate\r\n\r\n", 415},
      {"gzip coding", post + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {"gzip and chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {"gzip body", post + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab", 415},
      {"other expectation", post + "Expect: wonders\r\nContent-Length: 2\r\n\r\nab", 417},
      {"length over the limit", post + "Content-Length: 1001\r\n\r\n", 413},
      {"chunk over the limit", chunked + "3e9\r\n", 413},
      {"chunks over the limit",
       chunked + "3e8\r\n" + std::string(1000, 'a') + "\r\n1\r\nb\r\n0\r\n\r\n", 413},
      {"long header value", post + "Thing: " + std::string(kHeaderMax, 'a') + "\r\n\r\n", 431},
      {"long target", "GET /" + std::string(kHeaderMax, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 431},
      {"endless header", post + "Thing: " + std::string(kHeaderMax, 'a'), 431},
      {"endless extension", chunked + "1;" + std::string(2 * kHeaderMax, 'a'), 400},
  };
}

TEST(RequestReader, EachBadRequestHasItsStatusHoweverItIsCut) {
  for (const BadRequest& bad : bad_requests()) {
    for (const std::size_t piece : kPieces) {
      const Outcome outcome = read(bad.bytes, piece);
      EXPECT_EQ(outcome.progress, Progress::failed) << bad.name << " in pieces of " << piece;
      EXPECT_EQ(outcome.trouble.status, bad.status) << bad.name << " in pieces of " << piece;
      EXPECT_FALSE(outcome.trouble.code.empty());
      EXPECT_FALSE(outcome.trouble.message.empty());
    }
  }
}

TEST(RequestReader, RefusalsNameWhatWasGotAndWhatIsAllowed) {
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  const auto message = [&](const std::string& bytes) {
    return read(post + bytes, 64).trouble.message;
  };
  EXPECT_EQ(message("Content-Length: 1001\r\n\r\n"),
            "The request's body is 1001 bytes long, the limit is 1000 bytes.");
  EXPECT_EQ(
      message("Transfer-Encoding: chunked\r\n\r\n384\r\n" + std::string(900, 'a') + "\r\n65\r\n"),
      "The request's body is longer than the limit of 1000 bytes: 900 bytes have come and the "
      "next chunk goes beyond it.");
  EXPECT_EQ(message("Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n"),
            "Content-Encoding: got 'gzip', expected none: send the body uncompressed.");
  EXPECT_EQ(message("Content-Encoding: a\"\xc3\xa9\r\n\r\n"),
            "Content-Encoding: got 'a?"
            "?\?', expected none: send the body uncompressed.");
  EXPECT_NE(message("Thing: " + std::string(2 * kHeaderMax, 'a')).find("limit of 4096 bytes: 41"),
            std::string::npos);
}

TEST(RequestReader, ABodilessPostNeedsNoLength) {
  EXPECT_EQ(read("POST /v1/cache/reset HTTP/1.1\r\nHost: x\r\n\r\n", 64).request.body, "");
}

TEST(RequestReader, ManySmallHeadersCountTowardTheLimitTogether) {
  std::string bytes = "GET / HTTP/1.1\r\nHost: x\r\n";
  while (bytes.size() < kHeaderMax + 100) bytes += "A: b\r\n";
  bytes += "\r\n";
  for (const std::size_t piece : kPieces)
    EXPECT_EQ(read(bytes, piece).trouble.status, 431) << piece;
}

TEST(RequestReader, TheLimitsThemselvesFit) {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nThing: ";
  const std::string padding(kHeaderMax - head.size() - 4, 'a');
  const std::string body(kBodyMax, 'b');
  for (const std::size_t piece : kPieces) {
    const Outcome outcome = read(head + padding + "\r\n\r\n" + body, piece);
    EXPECT_EQ(outcome.progress, Progress::done) << piece << ": " << outcome.trouble.message;
    EXPECT_EQ(outcome.request.body, body);
  }
}

TEST(RequestReader, TrailersWithoutEndAreRefused) {
  std::string bytes = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
  for (int i = 0; i < 2000; ++i) bytes += "A: b\r\n";
  for (const std::size_t piece : kPieces)
    EXPECT_EQ(read(bytes, piece).trouble.status, 400) << piece;
}

}  // namespace
}  // namespace reprise
