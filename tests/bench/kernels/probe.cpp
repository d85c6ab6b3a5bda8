// The loops behind the probe. Inline assembly, so that no compiler can make them better or worse.
#include "bench/kernels/probe.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <immintrin.h>

namespace reprise::bench {
namespace {

constexpr double kQuiet = 0.92;
constexpr std::size_t kMemoryBytes = std::size_t{256} << 20;  // eight times a large L3
constexpr std::size_t kSliceBytes = std::size_t{32} << 20;
constexpr long kLoops = 60'000;

bool is_wide(std::string_view isa) {
  return isa.starts_with("avx512");
}

// clang-format off
#define REPRISE_CLOBBERS                                                                        \
  "rcx", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",         \
  "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc"
// Registers are cleared first: what was in them might be denormal and slow.
#define REPRISE_CLEAR                                                                           \
  "vpxor %%ymm0, %%ymm0, %%ymm0\n vpxor %%ymm1, %%ymm1, %%ymm1\n vpxor %%ymm2, %%ymm2, %%ymm2\n"  \
  "vpxor %%ymm3, %%ymm3, %%ymm3\n vpxor %%ymm4, %%ymm4, %%ymm4\n vpxor %%ymm5, %%ymm5, %%ymm5\n"  \
  "vpxor %%ymm6, %%ymm6, %%ymm6\n vpxor %%ymm7, %%ymm7, %%ymm7\n vpxor %%ymm8, %%ymm8, %%ymm8\n"  \
  "vpxor %%ymm9, %%ymm9, %%ymm9\n vpxor %%ymm10, %%ymm10, %%ymm10\n"                              \
  "vpxor %%ymm11, %%ymm11, %%ymm11\n vpxor %%ymm12, %%ymm12, %%ymm12\n"                           \
  "vpxor %%ymm13, %%ymm13, %%ymm13\n vpxor %%ymm14, %%ymm14, %%ymm14\n"                           \
  "vpxor %%ymm15, %%ymm15, %%ymm15\n"
#define REPRISE_LOOP(body)                                                                      \
  asm volatile(REPRISE_CLEAR "mov %0, %%rcx\n .p2align 5\n 1:\n" body "dec %%rcx\n jnz 1b\n"      \
               "vzeroupper\n" ::"r"(kLoops) : REPRISE_CLOBBERS)
#define REPRISE_TWELVE(op)                                                                      \
  op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)

// Twelve chains, more than latency times throughput; returns multiply-adds.
double run_fma_ymm() {
#define REPRISE_STEP(i) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #i "\n"
  REPRISE_LOOP(REPRISE_TWELVE(REPRISE_STEP));
#undef REPRISE_STEP
  return kLoops * 12.0 * 8;
}
double run_fma_zmm() {
#define REPRISE_STEP(i) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" #i "\n"
  REPRISE_LOOP(REPRISE_TWELVE(REPRISE_STEP));
#undef REPRISE_STEP
  return kLoops * 12.0 * 16;
}
// Products of bytes into 16-bit sums: the step of every AVX2 kernel, without its loads.
double run_int8_ymm() {
#define REPRISE_STEP(i, j)                                                                      \
  "vpmaddubsw %%ymm14, %%ymm15, %%ymm" #i "\n vpaddw %%ymm" #i ", %%ymm" #j ", %%ymm" #j "\n"
  REPRISE_LOOP(REPRISE_STEP(0, 6) REPRISE_STEP(1, 7) REPRISE_STEP(2, 8) REPRISE_STEP(3, 9)
               REPRISE_STEP(4, 10) REPRISE_STEP(5, 11) REPRISE_STEP(0, 6) REPRISE_STEP(1, 7));
#undef REPRISE_STEP
  return kLoops * 8.0 * 32;
}
double run_int8_zmm() {
#define REPRISE_STEP(i) "vpdpbusd %%zmm14, %%zmm15, %%zmm" #i "\n"
  REPRISE_LOOP(REPRISE_TWELVE(REPRISE_STEP));
#undef REPRISE_STEP
  return kLoops * 12.0 * 64;
}
// clang-format on

double billions_a_second(double (*run)()) {
  const double begin = thread_seconds();
  const double work = run();
  return work / (thread_seconds() - begin) * 1e-9;
}

// Reads every byte once, in order; the sum keeps the compiler from leaving it out.
__attribute__((target("avx2"))) std::uint64_t read_bytes(const std::uint8_t* bytes,
                                                         std::size_t size) {
  __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                     _mm256_setzero_si256()};
  for (std::size_t at = 0; at < size; at += 128) {
    for (std::size_t i = 0; i < 4; i++) {
      const auto* from = reinterpret_cast<const __m256i*>(bytes + at + 32 * i);
      sums[i] = _mm256_xor_si256(sums[i], _mm256_load_si256(from));
    }
  }
  const __m256i sum =
      _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  return static_cast<std::uint64_t>(_mm256_extract_epi64(sum, 0));
}

}  // namespace

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

bool Probe::is_supported() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

Peaks Probe::look(std::string_view isa, bool with_memory) {
  const bool wide = is_wide(isa);
  Peaks peaks;
  peaks.fma = billions_a_second(wide ? run_fma_zmm : run_fma_ymm);
  peaks.int8 = billions_a_second(wide ? run_int8_zmm : run_int8_ymm);
  if (with_memory) peaks.memory = read_memory();
  Peaks& best = best_[wide];
  best.fma = std::max(best.fma, peaks.fma);
  best.int8 = std::max(best.int8, peaks.int8);
  return peaks;
}

bool Probe::is_quiet(std::string_view isa, const Peaks& peaks) const {
  const Peaks& best = best_[is_wide(isa)];
  return peaks.fma >= kQuiet * best.fma && peaks.int8 >= kQuiet * best.int8;
}

double Probe::read_memory() {
  if (memory_.size() == 0) {
    memory_ = MemoryBlock(kMemoryBytes);
    std::memset(memory_.data(), 1, kMemoryBytes);  // or every page would be the one page of zeros
  }
  const double begin = thread_seconds();
  sink_ ^= read_bytes(memory_.data() + at_, kSliceBytes);
  const double seconds = thread_seconds() - begin;
  asm volatile("" ::"r"(sink_));
  at_ = (at_ + kSliceBytes) % kMemoryBytes;
  return static_cast<double>(kSliceBytes) / seconds * 1e-9;
}

}  // namespace reprise::bench
