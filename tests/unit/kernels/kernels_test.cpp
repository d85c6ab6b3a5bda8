// Choosing a table of kernels, and the float environment that they need.
#include "kernels/kernels.h"

#include <string>

#include <gtest/gtest.h>

#include "kernels/float_environment.h"

namespace reprise::kernels {
namespace {

TEST(Kernels, EveryTableIsComplete) {
  ASSERT_FALSE(available_kernels().empty());
  EXPECT_STREQ(available_kernels().front()->isa, "scalar");
  for (const KernelTable* table : available_kernels()) {
    EXPECT_NE(table->make_activations, nullptr);
    EXPECT_NE(table->matmul, nullptr);
    EXPECT_NE(table->rms_norm, nullptr);
    EXPECT_NE(table->add, nullptr);
    EXPECT_NE(table->scale, nullptr);
    EXPECT_NE(table->add_scaled, nullptr);
    EXPECT_NE(table->multiply, nullptr);
    EXPECT_NE(table->add_row, nullptr);
    EXPECT_NE(table->gelu_tanh_multiply, nullptr);
    EXPECT_NE(table->gelu_multiply, nullptr);
    EXPECT_NE(table->silu_multiply, nullptr);
    EXPECT_NE(table->sigmoid_multiply, nullptr);
    EXPECT_NE(table->softcap, nullptr);
    EXPECT_NE(table->rope, nullptr);
    EXPECT_NE(table->store_kv, nullptr);
    EXPECT_NE(table->attend_segment, nullptr);
    EXPECT_NE(table->clear_states, nullptr);
    EXPECT_NE(table->merge_states, nullptr);
    EXPECT_NE(table->finish_states, nullptr);
    EXPECT_NE(table->argmax, nullptr);
    EXPECT_NE(table->all_finite, nullptr);
    EXPECT_NE(table->sum_exp, nullptr);
    EXPECT_NE(table->exponentials, nullptr);
    EXPECT_NE(table->block_maxima, nullptr);
    EXPECT_NE(table->scaled_exponents, nullptr);
  }
}

TEST(Kernels, TheBestTableIsTheLastUnlessOneIsForced) {
  EXPECT_EQ(choose_kernels("").value(), available_kernels().back());
  for (const KernelTable* table : available_kernels()) {
    EXPECT_EQ(choose_kernels(table->isa).value(), table);
  }
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c");
  EXPECT_EQ(choose_kernels("avx2").has_value(), has_avx2);
  const bool has_avx512 =
      has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vnni");
  EXPECT_EQ(choose_kernels("avx512").has_value(), has_avx512);
}

// Or the tests that compare the tables would compare one with itself.
TEST(Kernels, EveryTableHasItsOwnNameAndMatrixMultiply) {
  const auto tables = available_kernels();
  for (std::size_t i = 0; i < tables.size(); i++) {
    for (std::size_t j = 0; j < i; j++) {
      EXPECT_STRNE(tables[i]->isa, tables[j]->isa);
      EXPECT_NE(tables[i]->matmul, tables[j]->matmul) << tables[i]->isa << " " << tables[j]->isa;
    }
  }
}

TEST(Kernels, AnUnknownNameIsAnErrorThatListsWhatThereIs) {
  for (const char* name : {"avx9", "AVX2", "scalar ", "sca"}) {
    const auto chosen = choose_kernels(name);
    ASSERT_FALSE(chosen.has_value()) << name;
    EXPECT_EQ(chosen.error().code, Errc::unsupported);
    EXPECT_EQ(chosen.error().field, "REPRISE_FORCE_ISA");
    EXPECT_NE(chosen.error().message.find("'" + std::string(name) + "'"), std::string::npos);
    for (const KernelTable* table : available_kernels()) {
      EXPECT_NE(chosen.error().message.find(table->isa), std::string::npos);
    }
  }
}

TEST(Kernels, FloatEnvironmentSeesEachChange) {
  const unsigned before = _mm_getcsr();
  EXPECT_TRUE(float_environment_is_default());
  for (const unsigned change : {0x8000u, 0x0040u, 0x2000u, 0x4000u, 0x6000u}) {
    _mm_setcsr(before | change);
    const bool is_default = float_environment_is_default();
    _mm_setcsr(before);
    EXPECT_FALSE(is_default) << change;
  }
  _mm_setcsr(before | 0x3fu);  // sticky exception flags are no change
  EXPECT_TRUE(float_environment_is_default());
  _mm_setcsr(before);
}

}  // namespace
}  // namespace reprise::kernels
