// The AVX-512 matrix multiply of BF16 weights.
#include "kernels/float_matmul_avx512.h"
#include "kernels/matmul_avx2.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
namespace reprise::kernels::avx512 {

void multiply_bf16(const MatmulCall& call, int panel_begin, int panel_end, std::uint8_t* scratch) {
  if (call.rows <= 4) return avx2::multiply_bf16(call, panel_begin, panel_end, scratch);
  multiply_floats<PanelBF16>(call, panel_begin, panel_end, scratch);
}

}  // namespace reprise::kernels::avx512
#pragma GCC pop_options
