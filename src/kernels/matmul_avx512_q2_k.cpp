// The AVX-512 matrix multiply of Q2_K weights.
#include "kernels/panel_matmul_avx512.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
namespace reprise::kernels::avx512 {

void multiply_q2_k(const MatmulCall& call, int panel_begin, int panel_end, std::uint8_t* scratch) {
  multiply_panels<UnpackQ2_K>(call, panel_begin, panel_end, scratch);
}

}  // namespace reprise::kernels::avx512
#pragma GCC pop_options
