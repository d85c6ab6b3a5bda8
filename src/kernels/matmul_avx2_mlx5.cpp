// The AVX2 matrix multiply of MLX 5-bit weights.
#include "kernels/panel_matmul_avx2.h"
#include "kernels/unpack_affine_avx2.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

void multiply_mlx5(const MatmulCall& call, int panel_begin, int panel_end, std::uint8_t* scratch) {
  multiply_affine<5>(call, panel_begin, panel_end, scratch);
}

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
