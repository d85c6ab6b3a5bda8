// `reprise serve` as a child process of the bench, ended with its owner.
#pragma once
#include <cstddef>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/client.h"

namespace reprise {

class ChildServer {
 public:
  // Starts this very program with `arguments` (which begin with "serve" and hold --port 0) and
  // waits until it says where it listens. The child gets no REPRISE_ variables: the arguments say
  // all. Errors: io, also when the child ends instead of serving.
  static Result<ChildServer> start(const std::vector<std::string>& arguments);

  ChildServer(ChildServer&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        output_(std::exchange(other.output_, -1)),
        address_(std::move(other.address_)) {}
  ChildServer& operator=(ChildServer&&) = delete;
  ~ChildServer();  // SIGTERM, after a while SIGKILL, and waits

  const HttpAddress& address() const { return address_; }
  std::size_t resident_bytes() const;  // 0 when it cannot be read

 private:
  ChildServer(pid_t pid, int output) : pid_(pid), output_(output) {}
  Status wait_for_address();

  pid_t pid_ = -1;
  int output_ = -1;  // of the child; read until the address came
  HttpAddress address_;
};

}  // namespace reprise
