// Stores tiny models in safetensors folders and GGUF files.
#include "support/tiny_checkpoint.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/file.h"
#include "base/safetensors.h"
#include "kernels/math.h"
#include "support/affine_quantizer.h"
#include "support/gguf_writer.h"
#include "support/tiny_vocabulary.h"

namespace reprise::testing {
namespace {

constexpr std::uint32_t kF32 = 0;  // GGUF's type id

std::string text_of(const JsonObject& object, std::string_view key) {
  return std::string(object.at(key).as_string());
}

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float rounded(float value, const std::string& dtype) {
  if (dtype == "F16") return kernels::half_to_float(kernels::float_to_half(value));
  if (dtype != "BF16") return value;
  return std::bit_cast<float>(static_cast<std::uint32_t>(float_to_bf16(value)) << 16);
}

std::vector<std::byte> float_bytes(std::span<const float> values, const std::string& dtype) {
  if (dtype == "F32") {
    const std::span<const std::byte> bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
  }
  CHECK(dtype == "F16" || dtype == "BF16");
  std::vector<std::uint16_t> words;
  for (const float value : values) {
    words.push_back(dtype == "F16" ? kernels::float_to_half(value) : float_to_bf16(value));
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

// <module>.weight, .scales and .biases. The weights are in the scales' type before they are
// quantised, as mlx-lm's converter has them.
void add_affine(std::vector<TinyStored>& out, const std::string& module, TinyTensor tensor,
                int bits, int group, const std::string& dtype) {
  for (float& value : tensor.values) value = rounded(value, dtype);
  std::vector<std::uint8_t> integers;
  std::vector<float> scales, biases;
  const auto size = static_cast<std::size_t>(group);
  for (std::size_t at = 0; at < tensor.values.size(); at += size) {
    const AffineGroup one =
        quantize_affine_group(std::span(tensor.values).subspan(at, size), bits, integers);
    scales.push_back(one.scale);
    biases.push_back(one.bias);
  }
  std::vector<std::int64_t> packed = tensor.shape, groups = tensor.shape;
  packed.back() = tensor.shape.back() * bits / 32;
  groups.back() = tensor.shape.back() / group;
  out.push_back({module + ".weight", "U32", packed, pack_affine(integers, bits)});
  out.push_back({module + ".scales", dtype, groups, float_bytes(scales, dtype)});
  out.push_back({module + ".biases", dtype, groups, float_bytes(biases, dtype)});
}

// Whether the form's own entry takes the options' bits and group: routers have their own.
bool is_base_affine(const JsonObject& form, const JsonObject& entry) {
  const JsonObject& quantization = form.at("config").as_object().at("quantization").as_object();
  return !quantization.contains(entry.at("name").as_string());
}

std::string config_json(const JsonObject& form, const TinyCheckpointOptions& options) {
  JsonObject config = form.at("config").as_object();
  for (const char* key : {"quantization", "quantization_config"}) {
    JsonValue* quantization = config.if_contains(key);
    if (quantization == nullptr) continue;
    if (options.bits > 0) quantization->as_object()["bits"] = options.bits;
    if (options.group > 0) quantization->as_object()["group_size"] = options.group;
  }
  return to_json(config);
}

void must_write(const std::filesystem::path& path, std::string_view content) {
  const Status status = write_file_atomic(path, content);
  if (!status) fmt::print(stderr, "tiny checkpoint: {}\n", status.error().message);
  CHECK(status.has_value());
}

std::string safetensors_bytes(std::span<const TinyStored> tensors) {
  std::vector<SafetensorsTensor> views;
  for (const TinyStored& tensor : tensors) {
    views.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  return write_safetensors(views, {{"format", "pt"}});
}

void write_sharded(std::span<const TinyStored> tensors, const std::filesystem::path& folder) {
  const std::size_t half = tensors.size() / 2;
  const std::pair<const char*, std::span<const TinyStored>> shards[] = {
      {"model-00001-of-00002.safetensors", tensors.first(half)},
      {"model-00002-of-00002.safetensors", tensors.subspan(half)}};
  JsonObject places;
  std::size_t total = 0;
  for (const auto& [file, part] : shards) {
    must_write(folder / file, safetensors_bytes(part));
    for (const TinyStored& tensor : part) {
      places[tensor.name] = file;
      total += tensor.bytes.size();
    }
  }
  const JsonObject index = {{"metadata", JsonObject{{"total_size", total}}},
                            {"weight_map", places}};
  must_write(folder / "model.safetensors.index.json", to_json(index));
}

void add_metadata(GgufWriter& writer, const std::string& key, const std::string& type,
                  const JsonValue& value) {
  if (type == "text") return writer.add_text(key, value.as_string());
  if (type == "u32") return writer.add_integer(key, value.to_number<std::uint32_t>());
  if (type == "f32") return writer.add_number(key, value.to_number<float>());
  if (type == "bool") return writer.add_bool(key, value.as_bool());
  if (type == "bools") {
    std::vector<bool> values;
    for (const JsonValue& item : value.as_array()) values.push_back(item.as_bool());
    return writer.add_bools(key, values);
  }
  CHECK(type == "i32s");
  std::vector<std::int32_t> values;
  for (const JsonValue& item : value.as_array()) values.push_back(item.to_number<std::int32_t>());
  writer.add_integers(key, values);
}

}  // namespace

std::vector<TinyStored> tiny_stored_tensors(const TinyCase& tiny, std::string_view form_name,
                                            const TinyCheckpointOptions& options) {
  const JsonObject& form = tiny.form(form_name);
  std::vector<TinyStored> result;
  for (const JsonValue& item : form.at("tensors").as_array()) {
    const JsonObject& entry = item.as_object();
    const std::string name = text_of(entry, "name"), type = text_of(entry, "type");
    TinyTensor tensor = tiny.stored(entry);
    if (type != "affine") {
      result.push_back({name, type, tensor.shape, float_bytes(tensor.values, type)});
      continue;
    }
    int bits = entry.at("bits").to_number<int>(), group = entry.at("group").to_number<int>();
    if (is_base_affine(form, entry)) {
      if (options.bits > 0) bits = options.bits;
      if (options.group > 0) group = options.group;
    }
    const std::string dtype = text_of(entry, "scales");
    if (tensor.shape.back() % group == 0) {
      add_affine(result, name, std::move(tensor), bits, group, dtype);
    } else {
      result.push_back({name + ".weight", dtype, tensor.shape, float_bytes(tensor.values, dtype)});
    }
  }
  return result;
}

std::vector<std::byte> tiny_gguf(const TinyCase& tiny, std::string_view form) {
  const JsonObject& description = tiny.form(form);
  GgufWriter writer;
  for (const JsonValue& item : description.at("metadata").as_array()) {
    const JsonArray& entry = item.as_array();
    add_metadata(writer, std::string(entry.at(0).as_string()), std::string(entry.at(1).as_string()),
                 entry.at(2));
  }
  writer.add_text("general.name", "tiny " + tiny.name());
  writer.add_text("tokenizer.chat_template", kTinyChatTemplate);
  add_tiny_vocabulary(writer);
  for (const TinyStored& tensor : tiny_stored_tensors(tiny, form)) {
    CHECK(tensor.dtype == "F32");
    writer.add_tensor(tensor.name, {tensor.shape.rbegin(), tensor.shape.rend()}, kF32,
                      tensor.bytes);
  }
  return writer.finish();
}

std::filesystem::path write_tiny_checkpoint(const TinyCase& tiny, std::string_view form,
                                            const std::filesystem::path& folder,
                                            const TinyCheckpointOptions& options) {
  std::filesystem::create_directories(folder);
  const JsonObject& description = tiny.form(form);
  if (text_of(description, "container") == "gguf") {
    const std::vector<std::byte> bytes = tiny_gguf(tiny, form);
    const std::filesystem::path file = folder / "model.gguf";
    must_write(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return file;
  }
  const std::vector<TinyStored> tensors = tiny_stored_tensors(tiny, form, options);
  if (options.sharded) {
    write_sharded(tensors, folder);
  } else {
    must_write(folder / "model.safetensors", safetensors_bytes(tensors));
  }
  must_write(folder / "config.json", config_json(description, options));
  must_write(folder / "tokenizer.json", tiny_tokenizer_json());
  must_write(folder / "tokenizer_config.json", tiny_tokenizer_config_json());
  must_write(folder / "generation_config.json", tiny_generation_config_json());
  return folder;
}

}  // namespace reprise::testing
