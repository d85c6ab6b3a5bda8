// One line, rewritten.
#include "cli/progress_line.h"

#include <cstdio>
#include <unistd.h>
#include <utility>

#include <fmt/core.h>

#include "base/log.h"

namespace reprise {
namespace {

constexpr int kLogStep = 25;  // percent

}  // namespace

ProgressLine::ProgressLine(std::string what, std::string unit, Log log,
                           std::chrono::milliseconds patience)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      log_(log),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      visible_from_(std::chrono::steady_clock::now() + patience) {}

void ProgressLine::show(std::size_t done, std::size_t total) {
  const bool is_logged = log_ == Log::quarters && spdlog::should_log(spdlog::level::info);
  if (!is_terminal_ && !is_logged) return;
  const int percent = total == 0 ? 100 : static_cast<int>(done * 100 / total);
  const int step = is_terminal_ ? 1 : kLogStep;
  if (percent == shown_ || (percent / step == shown_ / step && percent != 100)) return;
  if (is_terminal_ && std::chrono::steady_clock::now() < visible_from_) return;
  shown_ = percent;
  const std::string text = fmt::format("{} {:3} % of {} {}", what_, percent, total, unit_);
  width_ = text.size();
  write_stderr(is_terminal_ ? "\r" + text : text + "\n");
}

void ProgressLine::clear() {
  if (!is_terminal_ || width_ == 0) return;
  write_stderr("\r" + std::string(width_, ' ') + "\r");
  width_ = 0;
  shown_ = -1;
}

void write_stderr(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace reprise
