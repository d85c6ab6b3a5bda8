// What this machine, or the container we run in, lets us use.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>

namespace reprise {

// CPUs: the smallest of online processors, affinity mask and cgroup quota (rounded up); at least 1.
int usable_cpus();

// Bytes of memory: the smallest of physical memory and the limits of our cgroups (v2 or v1, ours
// and those around it). `root` is where /proc and /sys are (tests bring their own).
std::size_t memory_limit_bytes(const std::filesystem::path& root = "/");

// Bytes that can be taken now without swapping: the smallest of the system's estimate and what each
// of our cgroups has left. File pages that the system would give up first count as free.
std::size_t memory_available_bytes(const std::filesystem::path& root = "/");

// Resident bytes of this process.
std::size_t memory_resident_bytes();

// For messages about refused memory: " (this process may map N bytes: ulimit -v)", or nothing where
// there is no such limit.
std::string address_space_note();

}  // namespace reprise
