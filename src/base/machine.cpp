// Limits of the machine from /proc and of the container from cgroup v2 or v1.
#include "base/machine.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sched.h>
#include <sstream>
#include <string>
#include <unistd.h>

namespace reprise {
namespace {

// First whitespace-separated words of a small system file; empty when it is not there.
std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::int64_t> number_in(const char* path) {
  std::istringstream line(first_line(path));
  std::int64_t value = 0;
  if (line >> value) return value;
  return std::nullopt;  // not there, or the word "max"
}

// CPUs that the cgroup grants per period; absent when it does not limit.
std::optional<double> cgroup_cpus() {
  std::istringstream v2(first_line("/sys/fs/cgroup/cpu.max"));
  double quota = 0;
  double period = 0;
  if (v2 >> quota >> period && period > 0) return quota / period;
  const auto quota_v1 = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const auto period_v1 = number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (quota_v1 && period_v1 && *quota_v1 > 0 && *period_v1 > 0) {
    return static_cast<double>(*quota_v1) / static_cast<double>(*period_v1);
  }
  return std::nullopt;
}

std::optional<std::int64_t> cgroup_memory(const char* v2, const char* v1) {
  if (const auto bytes = number_in(v2)) return bytes;
  return number_in(v1);
}

// A line "Name:  12345 kB" of /proc/meminfo, in bytes.
std::size_t meminfo_bytes(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::size_t kilobytes = 0;
  while (file >> word) {
    if (word == name + ":" && file >> kilobytes) return kilobytes * 1024;
    std::getline(file, word);
  }
  return 0;
}

}  // namespace

int usable_cpus() {
  int cpus = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) cpus = std::min(cpus, CPU_COUNT(&mask));
  if (const auto quota = cgroup_cpus()) {
    const int whole = static_cast<int>(*quota);
    cpus = std::min(cpus, whole + (*quota > whole ? 1 : 0));
  }
  return std::max(cpus, 1);
}

std::size_t memory_limit_bytes() {
  const std::size_t physical = meminfo_bytes("MemTotal");
  const auto limit =
      cgroup_memory("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes");
  if (!limit || *limit <= 0) return physical;
  return std::min(physical, static_cast<std::size_t>(*limit));
}

std::size_t memory_available_bytes() {
  const std::size_t available = meminfo_bytes("MemAvailable");
  const auto used =
      cgroup_memory("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes");
  const std::size_t limit = memory_limit_bytes();
  if (!used || *used < 0 || limit == meminfo_bytes("MemTotal")) return available;
  const auto used_bytes = static_cast<std::size_t>(*used);
  return std::min(available, limit > used_bytes ? limit - used_bytes : 0);
}

std::size_t memory_resident_bytes() {
  std::istringstream line(first_line("/proc/self/statm"));
  std::size_t total_pages = 0;
  std::size_t resident_pages = 0;
  line >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace reprise
