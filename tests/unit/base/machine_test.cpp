// What a container's files say about memory: cgroup v2 and v1, ours and the ones around it.
#include "base/machine.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace reprise {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A root folder with the files that a test writes, gone at its end.
class FakeRoot {
 public:
  FakeRoot() {
    std::string pattern = std::filesystem::path(::testing::TempDir()) / "reprise_machine_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
    write("proc/meminfo",
          "MemTotal:       16384 kB\nMemFree:  1024 kB\nMemAvailable:    8192 kB\n");
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  void write_mib(const std::string& name, std::size_t mebibytes) {
    write(name, std::to_string(mebibytes * kMiB) + "\n");
  }
  std::size_t limit_mib() const { return memory_limit_bytes(path_) / kMiB; }
  std::size_t available_mib() const { return memory_available_bytes(path_) / kMiB; }

 private:
  std::filesystem::path path_;
};

TEST(Machine, WithoutAContainerTheSystemsNumbersCount) {
  const FakeRoot root;
  EXPECT_EQ(root.limit_mib(), 16U);
  EXPECT_EQ(root.available_mib(), 8U);
}

TEST(Machine, CgroupV2LimitAndUsageCount) {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/\n");
  root.write_mib("sys/fs/cgroup/memory.max", 6);
  root.write_mib("sys/fs/cgroup/memory.current", 4);
  EXPECT_EQ(root.limit_mib(), 6U);
  EXPECT_EQ(root.available_mib(), 2U);
  // The model file's pages are the first to go: they are no reason to take less.
  root.write("sys/fs/cgroup/memory.stat", "anon 1048576\ninactive_file 3145728\nslab 5\n");
  EXPECT_EQ(root.available_mib(), 5U);
  root.write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(root.limit_mib(), 16U);
  EXPECT_EQ(root.available_mib(), 8U);
  root.write_mib("sys/fs/cgroup/memory.high", 3);  // beyond it the system slows us down
  EXPECT_EQ(root.limit_mib(), 3U);
  EXPECT_EQ(root.available_mib(), 2U);
}

TEST(Machine, TheTightestOfNestedGroupsCounts) {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/system.slice/reprise.service\n");
  root.write_mib("sys/fs/cgroup/system.slice/reprise.service/memory.max", 6);
  root.write_mib("sys/fs/cgroup/system.slice/reprise.service/memory.current", 1);
  EXPECT_EQ(root.limit_mib(), 6U);
  EXPECT_EQ(root.available_mib(), 5U);
  root.write_mib("sys/fs/cgroup/system.slice/memory.max", 7);  // full of others
  root.write_mib("sys/fs/cgroup/system.slice/memory.current", 9);
  EXPECT_EQ(root.limit_mib(), 6U);
  EXPECT_EQ(root.available_mib(), 0U);
}

TEST(Machine, CgroupV1LimitAndUsageCount) {
  FakeRoot root;
  // Docker: the path is the host's, the container's own files are at the mount's top.
  root.write("proc/self/cgroup", "9:cpu,cpuacct:/docker/77\n5:hugetlb,memory:/docker/77\n");
  root.write_mib("sys/fs/cgroup/memory/memory.limit_in_bytes", 5);
  root.write_mib("sys/fs/cgroup/memory/memory.usage_in_bytes", 3);
  root.write("sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 1048576\n");
  EXPECT_EQ(root.limit_mib(), 5U);
  EXPECT_EQ(root.available_mib(), 3U);
  root.write_mib("sys/fs/cgroup/memory/docker/77/memory.limit_in_bytes", 4);
  EXPECT_EQ(root.limit_mib(), 4U);
  root.write("sys/fs/cgroup/memory/docker/77/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(root.limit_mib(), 16U);
  EXPECT_EQ(root.available_mib(), 8U);
}

TEST(Machine, PathsOutsideOfTheNamespaceAreNotFollowed) {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/../../other\n");
  root.write_mib("sys/fs/cgroup/memory.max", 6);
  root.write_mib("sys/other/memory.max", 1);
  EXPECT_EQ(root.limit_mib(), 6U);
}

TEST(Machine, ThisMachineHasSome) {
  EXPECT_GE(memory_limit_bytes(), memory_available_bytes());
  EXPECT_GT(memory_available_bytes(), 0U);
  EXPECT_GE(usable_cpus(), 1);
}

}  // namespace
}  // namespace reprise
