// stdio keeps that a write failed, not why.
#include "cli/standard_output.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/core.h>

#include "cli/progress_line.h"

namespace reprise {
namespace {

// The process's first failed write, as stdout is the process's.
std::atomic<int>& first_error() {
  static std::atomic<int> error = 0;
  return error;
}

}  // namespace

void write_output(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return;
  int none = 0;
  first_error().compare_exchange_strong(none, errno);
}

int finish_output(int exit_code, int error) {
  write_output({});
  if (first_error() != 0) error = first_error();
  if ((error == 0 && std::ferror(stdout) == 0) || error == EPIPE) return exit_code;
  write_stderr(fmt::format("reprise: cannot write standard output{}{}\n", error != 0 ? ": " : "",
                           error != 0 ? std::strerror(error) : ""));
  return exit_code != 0 ? exit_code : 1;
}

}  // namespace reprise
