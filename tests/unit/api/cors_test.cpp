// Which origins are allowed, and which headers a preflight is told of.
#include "api/cors.h"

#include <string>

#include <gtest/gtest.h>

namespace reprise {
namespace {

int status_of(const std::string& origin, const std::string& host, std::string_view allowed = "") {
  const ApiStatus status = check_origin({{"host", host}, {"origin", origin}}, allowed);
  return status ? 200 : status.error().status;
}

TEST(Cors, OnlyBrowsersNameAnOrigin) {
  EXPECT_TRUE(check_origin({}, ""));
  EXPECT_TRUE(check_origin({{"host", "chat.example"}}, ""));
  EXPECT_TRUE(check_origin({{"host", "chat.example"}}, "https://chat.example"));
}

TEST(Cors, TheOwnOriginIsOneThatNoNameServerMade) {
  for (const std::string host : {"localhost", "localhost:8080", "LOCALHOST:8080", "127.0.0.1:8080",
                                 "192.168.1.5", "[::1]:8080", "[fe80::1]"}) {
    EXPECT_EQ(status_of("http://" + host, host), 200) << host;
    EXPECT_EQ(status_of("https://" + host, host), 200) << host;
    EXPECT_EQ(status_of("http://" + host + "1", host), 403) << host;
    EXPECT_EQ(status_of("http://evil.example", host), 403) << host;
    EXPECT_EQ(status_of("ftp://" + host, host), 403) << host;
    EXPECT_EQ(status_of(host, host), 403) << host;
  }
  // Rebinding: a page's own name that points to this machine.
  for (const std::string host :
       {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
        "127.1", "0x7f000001", "[evil]", "[::1", "", "1.2.3.4.5", "localhost@evil.example"}) {
    EXPECT_EQ(status_of("http://" + host, host), 403) << host;
  }
  EXPECT_EQ(status_of("http://localhost:3000", "localhost:8080"), 403);
  EXPECT_EQ(status_of("http://127.0.0.1:8080", "localhost:8080"), 403);
  EXPECT_EQ(status_of("null", "localhost"), 403);
  EXPECT_EQ(status_of("", "localhost"), 403);
  EXPECT_FALSE(check_origin({{"origin", "http://localhost"}}, ""));  // HTTP/1.0 without Host
}

TEST(Cors, AnOriginThatIsAllowed) {
  EXPECT_EQ(status_of("https://evil.example", "x", "*"), 200);
  EXPECT_EQ(status_of("null", "x", "*"), 200);
  EXPECT_EQ(status_of("https://chat.example", "x", "https://chat.example"), 200);
  EXPECT_EQ(status_of("https://chat.example", "x", "https://Chat.example"), 200);
  EXPECT_EQ(status_of("https://chat.example:444", "x", "https://chat.example"), 403);
  EXPECT_EQ(status_of("http://chat.example", "x", "https://chat.example"), 403);
  EXPECT_EQ(status_of("null", "x", "null"), 200);
  EXPECT_EQ(status_of("http://localhost", "localhost", "https://chat.example"), 200);
  EXPECT_FALSE(check_origin({{"host", "localhost"},
                             {"origin", "https://chat.example"},
                             {"origin", "https://evil.example"}},
                            "https://chat.example"));
}

TEST(Cors, TheRefusalNamesTheOriginAndTheFlag) {
  const ApiStatus status =
      check_origin({{"origin", "https://a"}, {"host", "localhost"}}, "https://b");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, "origin_not_allowed");
  EXPECT_EQ(status.error().message,
            "origin: got \"https://a\", expected \"https://b\" or the server's own (localhost or "
            "its IP address, and port); --cors-origin says which web pages may use this server");
}

TEST(Cors, APreflightsHeaderNamesAreRepeatedWhereTheyAreNames) {
  const std::string usual = "authorization, content-type";
  EXPECT_EQ(allowed_headers(""), usual);
  EXPECT_EQ(allowed_headers("x-stainless-lang"), "x-stainless-lang");
  EXPECT_EQ(allowed_headers("Authorization,x-a ,\tx-b"), "Authorization, x-a, x-b");
  EXPECT_EQ(allowed_headers("x-a,,x-b"), usual);
  EXPECT_EQ(allowed_headers("x-a,"), "x-a");
  EXPECT_EQ(allowed_headers(","), usual);
  EXPECT_EQ(allowed_headers("x a"), usual);
  EXPECT_EQ(allowed_headers("x:a"), usual);
  EXPECT_EQ(allowed_headers("x\"a"), usual);
  EXPECT_EQ(allowed_headers("x\xC3\xA4"), usual);
  EXPECT_EQ(allowed_headers(std::string(4096, 'a')).size(), 4096u);
  EXPECT_EQ(allowed_headers(std::string(4097, 'a')), usual);
}

}  // namespace
}  // namespace reprise
