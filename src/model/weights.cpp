// Tensors of a model's files become panels and vectors.
#include "model/weights.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace reprise {
namespace {

using kernels::PanelMatrix;
using kernels::WeightType;

constexpr int kColumnsMax = 1 << 18;  // the matrix kernels' tables are made for
constexpr int kAffineUnit = 32;       // columns come in multiples of it

std::unexpected<Error> wrong_shape(const StoredTensor& tensor,
                                   std::span<const std::int64_t> expected) {
  return fail(Errc::corrupt,
              fmt::format("tensor {}: got shape [{}], expected [{}]", tensor.name,
                          fmt::join(tensor.shape, ", "), fmt::join(expected, ", ")),
              std::string(tensor.name));
}

bool is_float(WeightType type) {
  return type == WeightType::f32 || type == WeightType::f16 || type == WeightType::bf16;
}

std::optional<kernels::ScaleType> scale_type_of(const StoredTensor& tensor) {
  if (tensor.type == WeightType::f16) return kernels::ScaleType::f16;
  if (tensor.type == WeightType::bf16) return kernels::ScaleType::bf16;
  if (tensor.type == WeightType::f32) return kernels::ScaleType::f32;
  return std::nullopt;
}

Result<kernels::ScaleType> common_scale_type(const StoredTensor& scales,
                                             const StoredTensor& biases) {
  const std::optional<kernels::ScaleType> type = scale_type_of(scales);
  if (type && biases.type == scales.type) return *type;
  return fail(Errc::corrupt,
              fmt::format("tensor {}: scales of type {} with biases of type {}, expected F16, "
                          "BF16 or F32 alike",
                          scales.name, scales.type_name, biases.type_name),
              std::string(scales.name));
}

// What the stored tensor's shape must be: [count,] rows, columns.
Status check_columns(const std::string& name, int columns) {
  if (columns <= kColumnsMax) return {};
  return fail(Errc::unsupported,
              fmt::format("tensor {}: got rows of {} columns, expected at most {}", name, columns,
                          kColumnsMax),
              name);
}

std::vector<std::int64_t> shape_of(int count, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> shape = {rows, columns};
  if (count > 0) shape.insert(shape.begin(), count);
  return shape;
}

std::size_t bytes_of(const Checkpoint& checkpoint) {
  std::size_t bytes = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) bytes += tensor.bytes.size();
  return bytes;
}

}  // namespace

WeightLoader::WeightLoader(const Checkpoint& checkpoint, TensorNames names,
                           Quantization quantization)
    : checkpoint_(&checkpoint),
      names_(std::move(names)),
      quantization_(quantization),
      packer_(checkpoint, bytes_of(checkpoint)) {}

bool WeightLoader::has(std::string_view tensor) const {
  return checkpoint_->find(names_.stored(tensor)) != nullptr;
}

Result<const StoredTensor*> WeightLoader::require(const std::string& stored) {
  const StoredTensor* tensor = checkpoint_->find(stored);
  if (tensor == nullptr) {
    return fail(Errc::not_found, fmt::format("tensor {} is missing from the model", stored),
                stored);
  }
  return tensor;
}

// The matrices of a slice: rows of a tensor that may stack several matrices.
Result<std::vector<WeightLoader::Source>> WeightLoader::slices(const std::string& module,
                                                               std::string_view suffix,
                                                               Slice slice) {
  const std::string name = module + std::string(suffix);
  TRY_ASSIGN(const StoredTensor* const tensor, require(name));
  if (checkpoint_->find(module + ".scales") != nullptr) {
    return affine_slices(*tensor, module, slice);
  }
  if (!tensor->type) {
    return fail(Errc::unsupported,
                fmt::format("tensor {}: type {} is not supported here", name, tensor->type_name),
                name);
  }
  const std::size_t rank = slice.count > 0 ? 3 : 2;
  const bool any = slice.total < 0 && tensor->shape.size() == rank &&
                   tensor->shape[rank - 2] >= slice.first + slice.outputs;
  const std::int64_t total = any ? tensor->shape[rank - 2] : std::max(slice.total, slice.outputs);
  const auto expected = shape_of(slice.count, total, slice.inputs);
  if (tensor->shape != expected) return wrong_shape(*tensor, expected);
  const kernels::WeightTraits& traits = kernels::weight_traits(*tensor->type);
  if (slice.inputs % traits.block_columns != 0) {
    return fail(Errc::corrupt,
                fmt::format("tensor {}: {} columns are not a multiple of {}'s block of {}", name,
                            slice.inputs, traits.name, traits.block_columns),
                name);
  }
  const bool whole = total == slice.outputs && !taken_names_.contains(tensor->name);
  std::vector<Source> sources;
  for (int i = 0; i < std::max(slice.count, 1); i++) {
    StoredMatrix matrix;
    matrix.shape = PanelMatrix{*tensor->type, slice.outputs, slice.inputs};
    const std::size_t row = matrix.row_bytes();
    const auto first = static_cast<std::size_t>(i * total + slice.first);
    matrix.bytes =
        tensor->bytes.subspan(first * row, static_cast<std::size_t>(slice.outputs) * row);
    const WeightPacker::Origin origin{tensor, first * row, whole};
    sources.push_back({matrix, origin});
  }
  take(*tensor);
  return sources;
}

// Affine quantisation of MLX: bits and group follow from the shapes (configurations are known to
// miss overrides). Source: mlx's quantize, mlx-lm's checkpoints.
Result<std::vector<WeightLoader::Source>> WeightLoader::affine_slices(const StoredTensor& weight,
                                                                      const std::string& module,
                                                                      Slice slice) {
  TRY_ASSIGN(const StoredTensor* const scales, require(module + ".scales"));
  const std::size_t rank = slice.count > 0 ? 3 : 2;
  if (checkpoint_->find(module + ".biases") == nullptr || weight.type_name != "U32") {
    return fail(Errc::unsupported,
                fmt::format("tensor {}: quantised as {} with {} scales, expected MLX affine (U32 "
                            "with scales and biases)",
                            weight.name, weight.type_name, scales->type_name),
                std::string(weight.name));
  }
  TRY_ASSIGN(const StoredTensor* const biases, require(module + ".biases"));
  if (weight.shape.size() != rank || scales->shape.size() != rank) {
    return wrong_shape(weight, shape_of(slice.count, slice.outputs, slice.inputs));
  }
  const bool any = slice.total < 0 && weight.shape[rank - 2] >= slice.first + slice.outputs;
  const std::int64_t total = any ? weight.shape[rank - 2] : std::max(slice.total, slice.outputs);
  const std::int64_t words = weight.shape[rank - 1], groups = scales->shape[rank - 1];
  const std::int64_t bits = words * 32 / slice.inputs;
  const std::int64_t group = groups > 0 ? slice.inputs / groups : 0;
  const std::optional<WeightType> type = bits * slice.inputs == words * 32
                                             ? kernels::affine_type(static_cast<int>(bits))
                                             : std::nullopt;
  const bool known_group = group == 32 || group == 64 || group == 128;
  if (!type || !known_group || group * groups != slice.inputs || slice.inputs % kAffineUnit != 0) {
    return fail(
        Errc::unsupported,
        fmt::format("tensor {}: {} words and {} scales for {} columns are {} bits in groups "
                    "of {}, expected 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128",
                    weight.name, words, groups, slice.inputs, bits, group),
        std::string(weight.name));
  }
  const auto weight_shape = shape_of(slice.count, total, words);
  if (weight.shape != weight_shape) return wrong_shape(weight, weight_shape);
  const auto scale_shape = shape_of(slice.count, total, groups);
  if (scales->shape != scale_shape) return wrong_shape(*scales, scale_shape);
  if (biases->shape != scale_shape) return wrong_shape(*biases, scale_shape);
  TRY_ASSIGN(const kernels::ScaleType scale_type, common_scale_type(*scales, *biases));
  const bool whole = total == slice.outputs && !taken_names_.contains(weight.name);
  std::vector<Source> sources;
  for (int i = 0; i < std::max(slice.count, 1); i++) {
    StoredMatrix matrix;
    matrix.shape = PanelMatrix{*type, slice.outputs, slice.inputs};
    matrix.shape.group = static_cast<int>(group);
    matrix.shape.scale_type = scale_type;
    const auto first = static_cast<std::size_t>(i * total + slice.first);
    const auto rows = static_cast<std::size_t>(slice.outputs);
    const auto part = [&](const StoredTensor& tensor) {
      const std::size_t row =
          tensor.bytes.size() /
          (static_cast<std::size_t>(std::max(slice.count, 1)) * static_cast<std::size_t>(total));
      return tensor.bytes.subspan(first * row, rows * row);
    };
    matrix.bytes = part(weight);
    matrix.scales = part(*scales);
    matrix.biases = part(*biases);
    const WeightPacker::Origin origin{&weight, first * matrix.row_bytes(), whole};
    sources.push_back({matrix, origin});
  }
  take(weight);
  take(*scales);
  take(*biases);
  return sources;
}

// Float matrices that are stored turned: [count, inputs, total outputs].
Result<std::vector<WeightLoader::Source>> WeightLoader::turned_slices(const std::string& name,
                                                                      Slice slice) {
  TRY_ASSIGN(const StoredTensor* const tensor, require(name));
  const int total = std::max(slice.total, slice.outputs);
  const auto expected = shape_of(slice.count, slice.inputs, total);
  if (tensor->shape != expected) return wrong_shape(*tensor, expected);
  if (!tensor->type || !is_float(*tensor->type)) {
    return fail(
        Errc::unsupported,
        fmt::format("tensor {}: got type {}, expected F32, F16 or BF16", name, tensor->type_name),
        name);
  }
  std::vector<Source> sources;
  const std::size_t element = *tensor->type == WeightType::f32 ? 4 : 2;
  const std::size_t size = tensor->bytes.size() / static_cast<std::size_t>(slice.count);
  for (int i = 0; i < slice.count; i++) {
    StoredMatrix matrix;
    matrix.shape = PanelMatrix{*tensor->type, slice.outputs, slice.inputs};
    matrix.bytes = tensor->bytes.subspan(static_cast<std::size_t>(i) * size, size)
                       .subspan(static_cast<std::size_t>(slice.first) * element);
    matrix.step = static_cast<std::size_t>(total);
    const WeightPacker::Origin origin{tensor, 0, false};
    sources.push_back({matrix, origin});
  }
  take(*tensor);
  return sources;
}

Result<Linear> WeightLoader::linear(const std::string& name, int outputs, int inputs) {
  TRY(check_columns(name, inputs));
  TRY_ASSIGN(const auto sources, slices(names_.stored(name), ".weight",
                                        {.outputs = outputs, .total = outputs, .inputs = inputs}));
  TRY_ASSIGN(Linear linear, pack_linear(sources[0], target_of(sources[0].matrix)));
  if (has(name + ".bias")) {
    TRY_ASSIGN(linear.bias, vector(name + ".bias", outputs));
  }
  return linear;
}

Result<Linear> WeightLoader::float_linear(const std::string& name, int outputs, int inputs) {
  TRY(check_columns(name, inputs));
  TRY_ASSIGN(const auto sources, slices(names_.stored(name), ".weight",
                                        {.outputs = outputs, .total = outputs, .inputs = inputs}));
  return pack_linear(sources[0], PanelMatrix{WeightType::f32, outputs, inputs});
}

Result<Linear> WeightLoader::first_rows(const std::string& name, int count, int inputs) {
  TRY(check_columns(name, inputs));
  TRY_ASSIGN(const auto sources,
             slices(names_.stored(name), ".weight", {.outputs = count, .inputs = inputs}));
  return pack_linear(sources[0], target_of(sources[0].matrix));
}

Result<std::vector<float>> WeightLoader::vector(const std::string& name, int size, float add) {
  TRY_ASSIGN(const StoredTensor* const tensor, require(names_.stored(name)));
  const std::int64_t expected[] = {size};
  if (!std::ranges::equal(tensor->shape, expected)) return wrong_shape(*tensor, expected);
  if (!tensor->type || !is_float(*tensor->type)) {
    return fail(Errc::unsupported,
                fmt::format("tensor {}: got type {}, expected F32, F16 or BF16 for a vector",
                            tensor->name, tensor->type_name),
                std::string(tensor->name));
  }
  std::vector<float> values = read_floats(*tensor->type, tensor->bytes);
  for (float& value : values) value += add;
  take(*tensor);
  return values;
}

Result<StoredMatrix> WeightLoader::lookup_table(const std::string& name, int rows, int columns) {
  TRY_ASSIGN(const auto sources,
             slices(names_.stored(name), ".weight", {.outputs = rows, .inputs = columns}));
  needs_files_ = true;
  return sources[0].matrix;
}

// What a stored matrix becomes: itself, unless it is of floats and they are to be quantised.
PanelMatrix WeightLoader::target_of(const StoredMatrix& source) const {
  PanelMatrix target = source.shape;
  if (!is_float(target.type) || target.columns % kAffineUnit != 0) return target;
  if (quantization_ == Quantization::q8_0) target.type = WeightType::q8_0;
  if (quantization_ == Quantization::q4) {
    target.type = WeightType::mlx4;
    target.group = target.columns % 64 == 0 ? 64 : 32;
    target.scale_type = kernels::ScaleType::f16;
  }
  return target;
}

// Promises the panels of `target`, which begin at `panels`.
void WeightLoader::pack(const Source& source, PanelMatrix& target, std::uint8_t* panels) {
  packer_.add(source.matrix, target, panels, source.origin);
  stored_bytes_ += static_cast<std::size_t>(source.matrix.shape.rows) * source.matrix.row_bytes() +
                   source.matrix.scales.size() + source.matrix.biases.size();
  target.panels = panels;
}

Result<Linear> WeightLoader::pack_linear(const Source& source, PanelMatrix target) {
  const std::size_t bytes = static_cast<std::size_t>(target.panel_count()) * target.panel_bytes();
  TRY_ASSIGN(std::uint8_t* const panels, packer_.reserve(bytes));
  pack(source, target, panels);
  packed_bytes_ += bytes;
  Linear linear;
  linear.matrix = target;
  return linear;
}

void WeightLoader::take(const StoredTensor& tensor) {
  if (!taken_names_.insert(tensor.name).second) return;
  taken_.push_back(&tensor);
  packer_.note(tensor);
}

std::vector<MemoryBlock> WeightLoader::finish(ThreadPool& pool, const LoadProgress& progress) {
  packer_.run(pool, progress);
  return packer_.take_memory();
}

std::string WeightLoader::inventory() const {
  std::string lines;
  for (const StoredTensor* tensor : taken_) {
    lines += fmt::format("{} {} [{}] {}\n", tensor->name, tensor->type_name,
                         fmt::join(tensor->shape, ", "), packer_.digest(*tensor));
  }
  return lines;
}

std::vector<std::string_view> WeightLoader::untaken() const {
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : checkpoint_->tensors()) {
    if (!taken_names_.contains(tensor.name)) names.push_back(tensor.name);
  }
  return names;
}

}  // namespace reprise
