// Tensors of a file become panels and vectors.
#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "kernels/math.h"

namespace reprise {
namespace {

constexpr int kPanelsPerTask = 32;

Error wrong_shape(const GgufTensor& tensor, std::span<const std::int64_t> expected) {
  return Error{Errc::corrupt,
               fmt::format("tensor {}: got shape [{}], expected [{}]", tensor.name,
                           fmt::join(tensor.dims, ", "), fmt::join(expected, ", ")),
               std::string(tensor.name)};
}

std::vector<float> to_floats(kernels::WeightType type, std::span<const std::byte> bytes) {
  const std::size_t width = type == kernels::WeightType::f32 ? 4 : 2;
  std::vector<float> values(bytes.size() / width);
  for (std::size_t i = 0; i < values.size(); i++) {
    if (width == 4) {
      std::memcpy(&values[i], bytes.data() + 4 * i, 4);
      continue;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = type == kernels::WeightType::f16 ? kernels::half_to_float(bits)
                                                 : kernels::bfloat_to_float(bits);
  }
  return values;
}

}  // namespace

WeightLoader::WeightLoader(const GgufFile& file, ThreadPool& pool, LoadProgress progress)
    : file_(&file), pool_(&pool), progress_(std::move(progress)) {
  for (const GgufTensor& tensor : file.tensors()) bytes_total_ += tensor.bytes.size();
}

Result<const GgufTensor*> WeightLoader::require(const std::string& name) {
  const GgufTensor* tensor = file_->find_tensor(name);
  if (tensor == nullptr) {
    return fail(Errc::not_found, fmt::format("tensor {} is missing from the file", name), name);
  }
  if (!tensor->type) {
    return fail(
        Errc::unsupported,
        fmt::format("tensor {}: type {} is not supported (supported: F32 F16 BF16 Q4_0 Q4_1 "
                    "Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K)",
                    name, ggml_type_name(tensor->type_id)),
        name);
  }
  return tensor;
}

Result<Linear> WeightLoader::linear(const std::string& name, int outputs, int inputs) {
  TRY_ASSIGN(Linear linear, matrix(name + ".weight", outputs, inputs));
  if (has(name + ".bias")) {
    TRY_ASSIGN(linear.bias, vector(name + ".bias", outputs));
  }
  return linear;
}

Result<std::vector<float>> WeightLoader::vector(const std::string& name, int size) {
  TRY_ASSIGN(const GgufTensor* const tensor, require(name));
  const std::int64_t expected[] = {size};
  if (!std::ranges::equal(tensor->dims, expected)) {
    return std::unexpected(wrong_shape(*tensor, expected));
  }
  const kernels::WeightType type = *tensor->type;
  if (kernels::weight_traits(type).activations != kernels::ActivationFormat::f32) {
    return fail(Errc::unsupported,
                fmt::format("tensor {}: got type {}, expected F32, F16 or BF16 for a vector", name,
                            kernels::weight_traits(type).name),
                name);
  }
  take(*tensor);
  return to_floats(type, tensor->bytes);
}

Result<Linear> WeightLoader::matrix(const std::string& name, int rows, int columns) {
  TRY_ASSIGN(const GgufTensor* const tensor, require(name));
  const bool any_rows = rows < 0 && tensor->dims.size() == 2;
  const std::int64_t expected[] = {columns, any_rows ? tensor->dims[1] : rows};
  if (!std::ranges::equal(tensor->dims, expected)) {
    return std::unexpected(wrong_shape(*tensor, expected));
  }
  Linear linear;
  linear.matrix.type = *tensor->type;
  linear.matrix.rows = static_cast<int>(expected[1]);
  linear.matrix.columns = columns;
  TRY(pack(*tensor, linear));
  return linear;
}

Status WeightLoader::pack(const GgufTensor& tensor, Linear& linear) {
  const kernels::WeightTraits& traits = kernels::weight_traits(linear.matrix.type);
  if (linear.matrix.columns % traits.block_columns != 0) {
    return fail(Errc::corrupt,
                fmt::format("tensor {}: {} columns are not a multiple of {}'s block of {}",
                            tensor.name, linear.matrix.columns, traits.name, traits.block_columns),
                std::string(tensor.name));
  }
  const int panels = linear.matrix.panel_count();
  linear.memory = MemoryBlock(static_cast<std::size_t>(panels) *
                              kernels::panel_bytes(linear.matrix.type, linear.matrix.columns));
  linear.matrix.panels = linear.memory.data();
  const int tasks = (panels + kPanelsPerTask - 1) / kPanelsPerTask;
  pool_->parallel_for(tasks, [&](int task, int) {
    const int begin = task * kPanelsPerTask;
    kernels::pack_panels(linear.matrix.type, tensor.bytes.data(), linear.matrix.rows,
                         linear.matrix.columns, begin, std::min(panels, begin + kPanelsPerTask),
                         linear.memory.data());
  });
  packed_bytes_ += linear.memory.size();
  take(tensor);
  return {};
}

// Notes a tensor as used: into the inventory, out of memory, onto the progress bar.
void WeightLoader::take(const GgufTensor& tensor) {
  inventory_ += fmt::format("{} {} [{}] {}\n", tensor.name, ggml_type_name(tensor.type_id),
                            fmt::join(tensor.dims, ", "), content_hash(tensor.bytes));
  file_->release(tensor);
  bytes_done_ += tensor.bytes.size();
  if (progress_) progress_(bytes_done_, bytes_total_);
}

}  // namespace reprise
