// Which kernels this CPU can run, and which of them a process uses.
#include "kernels/kernels.h"

#include <array>
#include <string>

#include <fmt/core.h>

#include "kernels/attention.h"
#include "kernels/logits.h"
#include "kernels/matmul.h"
#include "kernels/rowwise.h"

namespace reprise::kernels {
namespace {

KernelTable make_scalar_table() {
  KernelTable table{};
  table.isa = "scalar";
  table.make_activations = scalar::make_activations;
  table.matmul = scalar::matmul;
  scalar::add_rowwise_kernels(table);
  scalar::add_attention_kernels(table);
  scalar::add_logits_kernels(table);
  return table;
}

KernelTable make_avx2_table() {
  KernelTable table{};
  table.isa = "avx2";
  table.make_activations = avx2::make_activations;
  table.matmul = avx2::matmul;
  avx2::add_rowwise_kernels(table);
  avx2::add_attention_kernels(table);
  avx2::add_logits_kernels(table);
  return table;
}

KernelTable make_avx512_table() {
  KernelTable table = make_avx2_table();
  table.isa = "avx512";
  table.matmul = avx512::matmul;
  avx512::add_rowwise_kernels(table);
  avx512::add_attention_kernels(table);
  return table;
}

bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}

}  // namespace

std::span<const KernelTable* const> available_kernels() {
  static const KernelTable scalar_table = make_scalar_table();
  static const KernelTable avx2_table = make_avx2_table();
  static const KernelTable avx512_table = make_avx512_table();
  static const std::array<const KernelTable*, 3> tables = {&scalar_table, &avx2_table,
                                                           &avx512_table};
  static const std::size_t count = cpu_has_avx512() ? 3 : cpu_has_avx2() ? 2 : 1;
  return std::span(tables).first(count);
}

Result<const KernelTable*> choose_kernels(std::string_view forced) {
  const auto tables = available_kernels();
  if (forced.empty()) return tables.back();
  std::string names;
  for (const KernelTable* table : tables) {
    if (forced == table->isa) return table;
    names += names.empty() ? table->isa : fmt::format(", {}", table->isa);
  }
  return fail(
      Errc::unsupported,
      fmt::format("instruction set '{}' is not available here; available: {}", forced, names),
      "REPRISE_FORCE_ISA");
}

}  // namespace reprise::kernels
