// GGUF files: the header's parts put together, tensors placed in the file, typed getters.
// Source: ggml's docs/gguf.md.
#include "model/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/printable.h"
#include "model/gguf_header.h"

namespace reprise {

using gguf::key_error;
using gguf::tensor_error;

namespace {

constexpr std::uint64_t kReserveMax = 4096;  // a count is believed only as far as this
constexpr std::uint64_t kAlignmentDefault = 32;

struct KnownType {
  std::uint32_t id;
  const char* name;
  std::optional<kernels::WeightType> type;
};

using enum kernels::WeightType;
constexpr KnownType kKnownTypes[] = {
    {0, "F32", f32},     {1, "F16", f16},        {2, "Q4_0", q4_0},      {3, "Q4_1", q4_1},
    {6, "Q5_0", q5_0},   {7, "Q5_1", q5_1},      {8, "Q8_0", q8_0},      {9, "Q8_1", {}},
    {10, "Q2_K", q2_k},  {11, "Q3_K", q3_k},     {12, "Q4_K", q4_k},     {13, "Q5_K", q5_k},
    {14, "Q6_K", q6_k},  {15, "Q8_K", {}},       {16, "IQ2_XXS", {}},    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}}, {19, "IQ1_S", {}},      {20, "IQ4_NL", iq4_nl}, {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},   {23, "IQ4_XS", iq4_xs}, {24, "I8", {}},         {25, "I16", {}},
    {26, "I32", {}},     {27, "I64", {}},        {28, "F64", {}},        {29, "IQ1_M", {}},
    {30, "BF16", bf16},  {34, "TQ1_0", {}},      {35, "TQ2_0", {}},      {39, "MXFP4", {}},
    {40, "NVFP4", {}},
};

const KnownType* find_known_type(std::uint32_t id) {
  for (const KnownType& known : kKnownTypes) {
    if (known.id == id) return &known;
  }
  return nullptr;
}

const char* kind_of(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    constexpr const char* kArrayNames[] = {"an array of integers", "an array of numbers",
                                           "an array of texts"};
    return kArrayNames[array->items.index()];
  }
  constexpr const char* kNames[] = {"an integer", "an integer above 2^63", "a number", "a bool",
                                    "a text"};
  return kNames[value.index()];
}

// Turns a tensor's relative offset into bytes of the file.
Status place_tensor(std::span<const std::byte> bytes, std::uint64_t data_begin,
                    std::uint64_t alignment, GgufTensor& tensor) {
  const std::uint64_t available = data_begin < bytes.size() ? bytes.size() - data_begin : 0;
  const std::uint64_t offset = tensor.offset;
  if (offset % alignment != 0) {
    return tensor_error(
        Errc::corrupt, tensor.name,
        fmt::format("offset {} is not a multiple of the alignment {}", offset, alignment));
  }
  std::uint64_t size = 0;
  if (tensor.type) {
    const kernels::WeightTraits& traits = kernels::weight_traits(*tensor.type);
    const auto block = static_cast<std::uint64_t>(traits.block_columns);
    if (static_cast<std::uint64_t>(tensor.dims[0]) % block != 0) {
      return tensor_error(Errc::corrupt, tensor.name,
                          fmt::format("rows of {} elements, expected a multiple of {} for {}",
                                      tensor.dims[0], block, traits.name));
    }
    const auto blocks = static_cast<std::uint64_t>(tensor.elements()) / block;
    const auto product =
        checked_multiply(blocks, static_cast<std::uint64_t>(traits.file_block_bytes));
    if (!product) {
      return tensor_error(Errc::corrupt, tensor.name,
                          fmt::format("{} blocks of {} bytes ({}), expected less than 2^64 bytes",
                                      blocks, traits.file_block_bytes, traits.name));
    }
    size = *product;
  }
  if (offset > available || size > available - offset) {
    return tensor_error(Errc::corrupt, tensor.name,
                        fmt::format("{} bytes at offset {} of the data, but the file has {} bytes "
                                    "of data (is the download complete?)",
                                    size, offset, available));
  }
  tensor.offset = static_cast<std::size_t>(data_begin + offset);
  if (tensor.type) tensor.bytes = bytes.subspan(tensor.offset, static_cast<std::size_t>(size));
  return {};
}

Status check_overlaps(const std::vector<GgufTensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (tensors[a].offset != tensors[b].offset) return tensors[a].offset < tensors[b].offset;
    return tensors[a].bytes.size() < tensors[b].bytes.size();  // unsupported types count as empty
  });
  for (std::size_t i = 1; i < order.size(); i++) {
    const GgufTensor& before = tensors[order[i - 1]];
    const GgufTensor& after = tensors[order[i]];
    if (before.offset + before.bytes.size() > after.offset) {
      return tensor_error(
          Errc::corrupt, after.name,
          fmt::format("starts at byte {} of the file, inside tensor '{}' that ends "
                      "at byte {}",
                      after.offset, printable(before.name), before.offset + before.bytes.size()));
    }
  }
  return {};
}

}  // namespace

std::int64_t GgufTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product *= dim;  // the reader checked that it fits
  return product;
}

std::string ggml_type_name(std::uint32_t type_id) {
  if (const KnownType* known = find_known_type(type_id)) return known->name;
  return fmt::format("type {}", type_id);
}

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  TRY_ASSIGN(MappedFile mapped, MappedFile::open(path));
  GgufFile file;
  if (Status status = file.read(mapped.bytes()); !status) {
    Error error = std::move(status).error();
    error.message = fmt::format("{}: {}", path.string(), error.message);
    return std::unexpected(std::move(error));
  }
  file.file_.emplace(std::move(mapped));
  return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes) {
  GgufFile file;
  TRY(file.read(bytes));
  return file;
}

Status GgufFile::read(std::span<const std::byte> bytes) {
  gguf::HeaderReader reader(bytes);
  std::uint64_t tensor_count = 0, metadata_count = 0;
  TRY(reader.read_preamble(version_, tensor_count, metadata_count));

  metadata_.reserve(static_cast<std::size_t>(std::min(metadata_count, kReserveMax)));
  for (std::uint64_t i = 0; i < metadata_count; i++) {
    TRY_ASSIGN(const std::string_view key, reader.read_name("metadata key", i));
    if (!metadata_index_.emplace(key, metadata_.size()).second) {
      return key_error(Errc::corrupt, key, "is there twice, expected once");
    }
    TRY_ASSIGN(GgufValue value, reader.read_value(key));
    metadata_.emplace_back(key, std::move(value));
  }
  tensors_.reserve(static_cast<std::size_t>(std::min(tensor_count, kReserveMax)));
  for (std::uint64_t i = 0; i < tensor_count; i++) {
    TRY_ASSIGN(const std::string_view name, reader.read_name("tensor", i));
    if (!tensor_index_.emplace(name, tensors_.size()).second) {
      return tensor_error(Errc::corrupt, name, "is there twice, expected once");
    }
    TRY_ASSIGN(GgufTensor tensor, reader.read_tensor(name));
    if (const KnownType* known = find_known_type(tensor.type_id)) tensor.type = known->type;
    tensors_.push_back(std::move(tensor));
  }

  constexpr std::string_view kAlignmentKey = "general.alignment";
  TRY_ASSIGN(const std::optional<std::int64_t> stated, integer(kAlignmentKey));
  const auto alignment = static_cast<std::uint64_t>(stated.value_or(kAlignmentDefault));
  if (stated && (*stated < 1 || !std::has_single_bit(alignment))) {
    return key_error(Errc::corrupt, kAlignmentKey,
                     fmt::format("{}, expected a power of two", *stated));
  }
  const auto data_end = checked_add(reader.position(), alignment - 1);
  CHECK(data_end.has_value());  // position < 2^63, alignment <= 2^62
  const std::uint64_t data_begin = *data_end / alignment * alignment;
  for (GgufTensor& tensor : tensors_) TRY(place_tensor(bytes, data_begin, alignment, tensor));
  return check_overlaps(tensors_);
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_index_.find(key);
  return found == metadata_index_.end() ? nullptr : &metadata_[found->second].second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<std::optional<std::int64_t>> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* integer = std::get_if<std::int64_t>(value)) return *integer;
  return key_error(Errc::corrupt, key, fmt::format("{}, expected an integer", kind_of(*value)));
}

Result<std::optional<double>> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* integer = std::get_if<std::int64_t>(value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(value)) {
    if (std::isfinite(*number)) return *number;
    return key_error(Errc::corrupt, key, fmt::format("{}, expected a finite number", *number));
  }
  return key_error(Errc::corrupt, key, fmt::format("{}, expected a number", kind_of(*value)));
}

Result<std::optional<bool>> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* boolean = std::get_if<bool>(value)) return *boolean;
  return key_error(Errc::corrupt, key, fmt::format("{}, expected a bool", kind_of(*value)));
}

Result<std::optional<std::string_view>> GgufFile::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string_view>(value)) return *text;
  return key_error(Errc::corrupt, key, fmt::format("{}, expected a text", kind_of(*value)));
}

Result<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  using Items = std::vector<std::int64_t>;
  const GgufValue* value = find(key);
  if (value == nullptr) return Items{};
  if (const auto* integer = std::get_if<std::int64_t>(value)) return Items{*integer};
  if (const auto* boolean = std::get_if<bool>(value)) return Items{*boolean ? 1 : 0};
  if (const auto* array = std::get_if<GgufArray>(value)) {
    if (const auto* items = std::get_if<Items>(&array->items)) return *items;
  }
  return key_error(Errc::corrupt, key,
                   fmt::format("{}, expected an array of integers", kind_of(*value)));
}

Result<std::vector<double>> GgufFile::numbers(std::string_view key) const {
  using Items = std::vector<double>;
  const GgufValue* value = find(key);
  if (value == nullptr) return Items{};
  Items items;
  if (const auto* array = std::get_if<GgufArray>(value)) {
    if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&array->items)) {
      return Items(integers->begin(), integers->end());
    }
    if (const auto* numbers = std::get_if<Items>(&array->items)) {
      for (std::size_t i = 0; i < numbers->size(); i++) {
        if (!std::isnan((*numbers)[i])) continue;
        return key_error(Errc::corrupt, key, fmt::format("item {} is NaN, expected a number", i));
      }
      return *numbers;
    }
  } else if (std::holds_alternative<std::int64_t>(*value) ||
             std::holds_alternative<double>(*value)) {
    TRY_ASSIGN(const std::optional<double> one, number(key));
    return Items{*one};
  }
  return key_error(Errc::corrupt, key,
                   fmt::format("{}, expected an array of numbers", kind_of(*value)));
}

Result<std::vector<std::string_view>> GgufFile::texts(std::string_view key) const {
  using Items = std::vector<std::string_view>;
  const GgufValue* value = find(key);
  if (value == nullptr) return Items{};
  if (const auto* array = std::get_if<GgufArray>(value)) {
    if (const auto* items = std::get_if<Items>(&array->items)) return *items;
  }
  return key_error(Errc::corrupt, key,
                   fmt::format("{}, expected an array of texts", kind_of(*value)));
}

}  // namespace reprise
