// fork and exec; the kernel ends the child when its parent dies.
#include "cli/child_server.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr auto kEndTimeout = std::chrono::seconds(20);
constexpr auto kEndPoll = std::chrono::milliseconds(10);

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::unexpected<Error> trouble(std::string_view doing) {
  return fail(Errc::io, fmt::format("cannot start the server: {}: {}", doing, strerror(errno)));
}

}  // namespace

Result<ChildServer> ChildServer::start(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"reprise"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; variable++) {
    if (!std::string_view(*variable).starts_with("REPRISE_")) variables.emplace_back(*variable);
  }
  const std::vector<char*> word_list = pointers(words);
  const std::vector<char*> variable_list = pointers(variables);
  int ends[2];
  if (::pipe(ends) != 0) return trouble("pipe");
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it had gone before prctl
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execve("/proc/self/exe", word_list.data(), variable_list.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return trouble("fork");
  }
  ChildServer server(pid, ends[0]);
  TRY(server.wait_for_address());
  return server;
}

// The line "reprise serves NAME at http://HOST:PORT".
Status ChildServer::wait_for_address() {
  constexpr std::string_view kMark = " at http://";
  std::string text;
  char bytes[512];
  for (;;) {
    const ssize_t count = ::read(output_, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return fail(Errc::io,
                  "the server that the bench started ended before it served; its own "
                  "message stands above");
    }
    text.append(bytes, static_cast<std::size_t>(count));
    const std::size_t mark = text.find(kMark);
    const std::size_t end = mark == std::string::npos ? mark : text.find('\n', mark);
    if (end == std::string::npos) continue;
    TRY_ASSIGN(address_,
               HttpAddress::parse(std::string_view(text).substr(mark + 4, end - mark - 4)));
    return {};
  }
}

ChildServer::~ChildServer() {
  if (output_ >= 0) ::close(output_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + kEndTimeout;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(kEndPoll);
  }
}

std::size_t ChildServer::resident_bytes() const {
  constexpr std::string_view kKey = "VmRSS:";
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  std::string line;
  while (std::getline(status, line)) {
    if (!line.starts_with(kKey)) continue;
    const std::size_t digit = line.find_first_of("0123456789");
    if (digit == std::string::npos) return 0;
    std::size_t kibibytes = 0;
    std::from_chars(line.data() + digit, line.data() + line.size(), kibibytes);
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace reprise
