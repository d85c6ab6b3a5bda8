// Limits of the machine from /proc and of the container from cgroup v2 or v1.
#include "base/machine.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sched.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

#include <fmt/core.h>

namespace reprise {
namespace {

// First whitespace-separated words of a small system file; empty when it is not there.
std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::int64_t> number_in(const std::filesystem::path& path) {
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

// A line "NAME:  12345 kB" (/proc/meminfo) or "NAME 12345" (memory.stat), as it stands.
std::optional<std::size_t> named_number(const std::filesystem::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  std::size_t value = 0;
  while (file >> word) {
    if (word == name && file >> value) return value;
    std::getline(file, word);
  }
  return std::nullopt;
}

std::size_t meminfo_bytes(const std::filesystem::path& root, std::string_view name) {
  return named_number(root / "proc/meminfo", name).value_or(0) * 1024;
}

// The names of one version's files.
struct CgroupFiles {
  const char* controllers;  // in /proc/self/cgroup; "" is v2
  const char* mount;
  std::array<const char*, 2> limits;
  const char* usage;
  const char* reclaimable;  // in memory.stat
};
constexpr CgroupFiles kCgroupVersions[] = {
    {"", "sys/fs/cgroup", {"memory.max", "memory.high"}, "memory.current", "inactive_file"},
    {"memory",
     "sys/fs/cgroup/memory",
     {"memory.limit_in_bytes", nullptr},
     "memory.usage_in_bytes",
     "total_inactive_file"}};

// The path of our cgroup as /proc/self/cgroup has it: "0::/a/b" or "7:cpu,memory:/a/b".
std::filesystem::path own_cgroup(const std::filesystem::path& root, const CgroupFiles& files) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string wanted = fmt::format(",{},", files.controllers);
    const std::string listed = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    if (listed.find(wanted) == std::string::npos) continue;
    return std::filesystem::path(line.substr(second + 1)).relative_path().lexically_normal();
  }
  return {};
}

struct CgroupMemory {
  std::size_t limit = 0;
  std::size_t left = 0;
};

std::optional<CgroupMemory> cgroup_memory(const std::filesystem::path& folder,
                                          const CgroupFiles& files) {
  std::optional<std::size_t> limit;
  for (const char* name : files.limits) {
    if (name == nullptr) continue;
    const auto value = number_in(folder / name);
    if (value && *value > 0) limit = std::min(limit.value_or(SIZE_MAX), std::size_t(*value));
  }
  if (!limit) return std::nullopt;
  const auto usage = static_cast<std::size_t>(
      std::max<std::int64_t>(number_in(folder / files.usage).value_or(0), 0));
  const std::size_t given_up = named_number(folder / "memory.stat", files.reclaimable).value_or(0);
  const std::size_t held = usage > given_up ? usage - given_up : 0;
  return CgroupMemory{*limit, *limit > held ? *limit - held : 0};
}

// The tightest limit and the least that is left, over our cgroup and all around it. A container
// often sees its own cgroup at the mount's top, under a path that is the host's.
CgroupMemory tightest_cgroup(const std::filesystem::path& root) {
  CgroupMemory tightest{SIZE_MAX, SIZE_MAX};
  for (const CgroupFiles& files : kCgroupVersions) {
    const std::filesystem::path mount = root / files.mount;
    std::filesystem::path own = own_cgroup(root, files);
    if (own.begin() != own.end() && *own.begin() == "..") own.clear();  // outside of what we see
    for (;;) {
      if (const auto memory = cgroup_memory(mount / own, files)) {
        tightest.limit = std::min(tightest.limit, memory->limit);
        tightest.left = std::min(tightest.left, memory->left);
      }
      if (own.empty()) break;
      own = own.parent_path();
    }
  }
  return tightest;
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

std::size_t memory_limit_bytes(const std::filesystem::path& root) {
  return std::min(meminfo_bytes(root, "MemTotal:"), tightest_cgroup(root).limit);
}

std::size_t memory_available_bytes(const std::filesystem::path& root) {
  return std::min(meminfo_bytes(root, "MemAvailable:"), tightest_cgroup(root).left);
}

std::size_t memory_resident_bytes() {
  std::istringstream line(first_line("/proc/self/statm"));
  std::size_t total_pages = 0;
  std::size_t resident_pages = 0;
  line >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::string address_space_note() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return fmt::format(" (this process may map {} bytes: ulimit -v)", limit.rlim_cur);
}

}  // namespace reprise
