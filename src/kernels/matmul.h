// Matrix multiply and its activations, one pair of functions an ISA; contracts as in KernelTable
// (kernels.h). All of them give the same bits; `scalar` is the specification.
//
// Numeric contract: for one output, blocks of k in ascending order; the integer sums inside a block
// are exact; then the float operations of Finish (panel_layout.h). Nothing else touches the result:
// not the number of rows, the tile, nor which call computes which panel. There is no split along k.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/weight_type.h"

namespace reprise::kernels {

namespace scalar {
void make_activations(ActivationFormat format, const float* x, std::size_t x_stride, int rows,
                      int columns, int tile_begin, int tile_end, std::uint8_t* out);
void matmul(const PanelMatrix& weights, const std::uint8_t* activations, int rows, int panel_begin,
            int panel_end, float* out, std::size_t out_stride, std::uint8_t* scratch);
}  // namespace scalar

namespace avx2 {  // needs AVX2, FMA and F16C
void make_activations(ActivationFormat format, const float* x, std::size_t x_stride, int rows,
                      int columns, int tile_begin, int tile_end, std::uint8_t* out);
void matmul(const PanelMatrix& weights, const std::uint8_t* activations, int rows, int panel_begin,
            int panel_end, float* out, std::size_t out_stride, std::uint8_t* scratch);
}  // namespace avx2

namespace avx512 {  // needs AVX-512 F, BW, VL, DQ and VNNI too; activations are avx2's
void matmul(const PanelMatrix& weights, const std::uint8_t* activations, int rows, int panel_begin,
            int panel_end, float* out, std::size_t out_stride, std::uint8_t* scratch);
}  // namespace avx512

}  // namespace reprise::kernels
