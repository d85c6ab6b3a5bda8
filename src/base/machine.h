// What this machine, or the container we run in, lets us use.
#pragma once
#include <cstddef>

namespace reprise {

// CPUs: the smallest of online processors, affinity mask and cgroup quota (rounded up); at least 1.
int usable_cpus();

// Bytes of memory: the smaller of physical memory and the cgroup's limit.
std::size_t memory_limit_bytes();

// Bytes that can be taken now without swapping: the system's estimate, or what the cgroup has left.
std::size_t memory_available_bytes();

// Resident bytes of this process.
std::size_t memory_resident_bytes();

}  // namespace reprise
