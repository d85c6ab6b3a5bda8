# Sources of the weight types and the matrix multiply: one translation unit a weight type and ISA.
set(MATMUL_SOURCES
  quantize.cpp
  weight_type.cpp
  activations_scalar.cpp
  matmul_scalar.cpp
  activations_avx2.cpp
  matmul_avx2.cpp
  matmul_avx512.cpp)
foreach(type f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q4_k q5_k q6_k q2_k q3_k iq4_nl iq4_xs mlx2 mlx3
             mlx4 mlx5 mlx6 mlx8)
  list(APPEND MATMUL_SOURCES matmul_avx2_${type}.cpp matmul_avx512_${type}.cpp)
endforeach()
