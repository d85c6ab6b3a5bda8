// The weight types: how a file stores a matrix, how we keep it in memory, what it is multiplied
// with.
#pragma once
#include <cstddef>
#include <cstdint>

namespace reprise::kernels {

enum class WeightType : std::uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q4_k,
  q5_k,
  q6_k
};
inline constexpr int kWeightTypes = 11;

// What the rows of x become before a product with weights of some type.
enum class ActivationFormat : std::uint8_t {
  f32,           // as they are (weights F32, F16, BF16)
  int8_group32,  // one scale per 32 columns (Q4_0 .. Q8_0)
  int8_group256  // one scale per 256 columns and an integer factor 1..8 per 32 (K-quants)
};

struct WeightTraits {
  const char* name;      // as GGUF spells it: "Q5_0"
  int block_columns;     // columns of one block; a matrix has a multiple of them
  int file_block_bytes;  // bytes of one block of one row in the file
  ActivationFormat activations;
};
const WeightTraits& weight_traits(WeightType type);

// Weights in memory: panels of 16 output rows, block after block along the columns, in the kernels'
// own order but bit for bit the file's integers and scales. The last panel is padded with zero
// rows.
inline constexpr int kPanelRows = 16;

struct PanelMatrix {
  WeightType type = WeightType::f32;
  int rows = 0;                          // outputs
  int columns = 0;                       // inputs; a multiple of the type's block_columns
  const std::uint8_t* panels = nullptr;  // 64-byte aligned

  int panel_count() const { return (rows + kPanelRows - 1) / kPanelRows; }
};

std::size_t file_row_bytes(WeightType type, int columns);
std::size_t panel_bytes(WeightType type, int columns);  // bytes of one panel

// Packs panels [panel_begin, panel_end) of a matrix [rows, columns] whose rows lie back to back in
// `file_rows`, as the file stores them, into `panels` (the start of panel 0). Lossless.
void pack_panels(WeightType type, const std::byte* file_rows, int rows, int columns,
                 int panel_begin, int panel_end, std::uint8_t* panels);

// One row of the matrix as floats, out: [columns]. An embedding lookup; the same bits on every ISA.
void unpack_row(const PanelMatrix& matrix, int row, float* out);

// Bytes that `rows` rows of x take in `format`, a multiple of 64.
std::size_t activation_bytes(ActivationFormat format, int rows, int columns);
// Rows are converted in tiles of four; the last tile of a batch holds the 1..4 left over.
inline constexpr int kTileRows = 4;

}  // namespace reprise::kernels
