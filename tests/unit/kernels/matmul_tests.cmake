# Tests of the weight types and the matrix multiply.
set(MATMUL_TESTS affine_test.cpp matmul_test.cpp quantize_test.cpp weight_type_test.cpp)
set_source_files_properties(affine_test.cpp quantize_test.cpp weight_type_test.cpp
  PROPERTIES COMPILE_DEFINITIONS
  REPRISE_WEIGHT_TYPE_GOLDENS="${CMAKE_SOURCE_DIR}/tests/golden/weight_types")
