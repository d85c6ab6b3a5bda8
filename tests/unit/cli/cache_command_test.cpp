// `reprise cache` where there is no server, no sense or no permission: one line and exit code 1.
#include <arpa/inet.h>
#include <cstdint>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "cli/options.h"

namespace reprise {
namespace {

struct Outcome {
  int code = 0;
  std::string printed, complaint;
};

Outcome run(const std::vector<std::string>& words) {
  const auto parsed = parse_command_line(words);
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = parsed->command->run(parsed->options);
  outcome.complaint = ::testing::internal::GetCapturedStderr();
  outcome.printed = ::testing::internal::GetCapturedStdout();
  return outcome;
}

// A port of 127.0.0.1 that nobody listens on: bound, so that nobody else gets it meanwhile.
class DeafPort {
 public:
  DeafPort() : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  DeafPort(const DeafPort&) = delete;
  DeafPort& operator=(const DeafPort&) = delete;
  ~DeafPort() { ::close(descriptor_); }
  std::uint16_t port() const { return port_; }

 private:
  int descriptor_;
  std::uint16_t port_ = 0;
};

TEST(CacheCommand, NoServerIsOneLineWithHostAndPort) {
  const DeafPort deaf;
  const std::string port = std::to_string(deaf.port());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"cache", "--port", port},
        std::vector<std::string>{"cache", "--url", "http://127.0.0.1:" + port, "--json"},
        std::vector<std::string>{"cache", "--port", port, "--reset"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.printed, "");
    EXPECT_NE(outcome.complaint.find("127.0.0.1 port " + port), std::string::npos)
        << outcome.complaint;
    EXPECT_EQ(outcome.complaint.find('\n'), outcome.complaint.size() - 1);
  }
}

TEST(CacheCommand, AddressesThatAreNoneAreNamed) {
  const struct {
    std::vector<std::string> words;
    const char* part;
  } kCases[] = {
      {{"cache", "--port", "0"}, "--port: got 0"},
      {{"cache", "--url", "localhost:8080"}, "--url: got \"localhost:8080\""},
      {{"cache", "--url", "https://localhost"}, "https"},
  };
  for (const auto& wrong : kCases) {
    const Outcome outcome = run(wrong.words);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.complaint.find(wrong.part), std::string::npos) << outcome.complaint;
  }
}

}  // namespace
}  // namespace reprise
