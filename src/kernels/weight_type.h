// The weight types: how a file stores a matrix, how we keep it in memory, what it is multiplied
// with.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

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
  q6_k,
  q2_k,
  q3_k,
  iq4_nl,
  iq4_xs,
  mlx2,
  mlx3,
  mlx4,
  mlx5,
  mlx6,
  mlx8
};
inline constexpr int kWeightTypes = 21;

// The MLX affine types: w = scale * q + bias, q unsigned of 2..8 bits, a scale and a bias (each may
// be negative) per group of 32, 64 or 128 columns of a row, kept in the file's own float type.
bool is_affine(WeightType type);
int affine_bits(WeightType type);                 // 2, 3, 4, 5, 6 or 8; is_affine(type) only
std::optional<WeightType> affine_type(int bits);  // none for other numbers of bits

enum class ScaleType : std::uint8_t { f16, bf16, f32 };
constexpr int scale_bytes(ScaleType type) {
  return type == ScaleType::f32 ? 4 : 2;
}

// What the rows of x become before a product with weights of some type.
enum class ActivationFormat : std::uint8_t {
  f32,           // as they are (weights F32, F16, BF16)
  int8_group32,  // one scale per 32 columns (Q4_0 .. Q8_0, IQ4_NL, MLX of group 32)
  int8_group64,  // one scale per 64 or 128 columns (MLX of that group)
  int8_group128,
  int8_group256  // one scale per 256 columns and an integer factor 1..8 per 32 (K-quants, IQ4_XS)
};
inline constexpr int kActivationFormats = 5;

struct WeightTraits {
  const char* name;      // as GGUF spells it: "Q5_0"; "MLX 4-bit"
  int block_columns;     // columns of one block; a matrix has a multiple of them (MLX: of group)
  int file_block_bytes;  // bytes of one block of one row in the file (MLX: of the integers alone)
  ActivationFormat activations;  // MLX: of group 32; PanelMatrix::activations() knows the group
};
const WeightTraits& weight_traits(WeightType type);

// Weights in memory: panels of 16 output rows, block after block along the columns, in the kernels'
// own order but bit for bit the file's integers and scales. The last panel is padded with zero
// rows.
inline constexpr int kPanelRows = 16;

struct PanelMatrix {
  WeightType type = WeightType::f32;
  int rows = 0;                           // outputs
  int columns = 0;                        // inputs; a multiple of the type's block_columns
  const std::uint8_t* panels = nullptr;   // 64-byte aligned
  int group = 0;                          // MLX: 32, 64 or 128; columns is a multiple of it
  ScaleType scale_type = ScaleType::f16;  // MLX: of scales and biases

  int panel_count() const { return (rows + kPanelRows - 1) / kPanelRows; }
  std::size_t panel_bytes() const;  // bytes of one panel: 16 rows' bytes in the file
  ActivationFormat activations() const;
};

std::size_t file_row_bytes(WeightType type, int columns);  // MLX: of the integers alone
std::size_t panel_bytes(WeightType type, int columns);     // bytes of one panel; not for MLX

// Packs panels [panel_begin, panel_end) of a matrix [rows, columns] whose rows lie back to back in
// `file_rows`, as the file stores them, into `panels` (the start of panel 0). Lossless.
void pack_panels(WeightType type, const std::byte* file_rows, int rows, int columns,
                 int panel_begin, int panel_end, std::uint8_t* panels);

// An MLX matrix as its file stores it: `quants` [rows, columns * bits / 8 bytes], a little-endian
// stream of bits per row, low bits first; `scales` and `biases` [rows, columns / group].
struct AffineRows {
  const std::byte* quants;
  const std::byte* scales;
  const std::byte* biases;
};
// As pack_panels; `shape` gives all but the panels. Lossless.
void pack_affine_panels(const PanelMatrix& shape, const AffineRows& rows, int panel_begin,
                        int panel_end, std::uint8_t* panels);

// One row of the matrix as floats, out: [columns]. An embedding lookup; the same bits on every ISA.
// MLX: scale * q rounded, then + bias rounded.
void unpack_row(const PanelMatrix& matrix, int row, float* out);

// The same bits from one row as the file stores it (lookup tables that stay memory-mapped).
void read_file_row(WeightType type, const std::byte* row, int columns, float* out);  // not MLX
// `row` points at one row's integers, scales and biases; shape: type, columns, group, scale_type.
void read_affine_row(const PanelMatrix& shape, const AffineRows& row, float* out);

// Bytes that `rows` rows of x take in `format`, a multiple of 64.
std::size_t activation_bytes(ActivationFormat format, int rows, int columns);
// Rows are converted in tiles of four; the last tile of a batch holds the 1..4 left over.
inline constexpr int kTileRows = 4;

}  // namespace reprise::kernels
