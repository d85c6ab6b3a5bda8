// Reads the descriptions of tiny models and makes their weights.
#include "support/tiny_case.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include <fmt/core.h>

#include "base/check.h"
#include "base/file.h"

namespace reprise::testing {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio, splitmix64's step

std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return value;
}

std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

std::string text_of(const JsonValue& value) {
  return std::string(value.as_string());
}

std::string must_read(const std::filesystem::path& path) {
  Result<std::string> content = read_file(path, 4 << 20);
  if (!content) fmt::print(stderr, "tiny case: {}\n", content.error().message);
  CHECK(content.has_value());
  return std::move(*content);
}

std::int64_t count(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

// Every tensor below as [outer, extent of the axis, inner].
struct AxisView {
  std::size_t outer = 1, extent = 1, inner = 1;
  AxisView(std::span<const std::int64_t> shape, std::size_t axis)
      : outer(static_cast<std::size_t>(count(shape.first(axis)))),
        extent(static_cast<std::size_t>(shape[axis])),
        inner(static_cast<std::size_t>(count(shape.subspan(axis + 1)))) {}
};

void slice(TinyTensor& tensor, std::size_t axis, std::size_t begin, std::size_t end) {
  const AxisView view(tensor.shape, axis);
  std::vector<float> kept;
  for (std::size_t outer = 0; outer < view.outer; outer++) {
    const auto first = tensor.values.begin() +
                       static_cast<std::ptrdiff_t>((outer * view.extent + begin) * view.inner);
    kept.insert(kept.end(), first, first + static_cast<std::ptrdiff_t>((end - begin) * view.inner));
  }
  tensor.values = std::move(kept);
  tensor.shape[axis] = static_cast<std::int64_t>(end - begin);
}

// Swaps the last two axes.
void transpose(TinyTensor& tensor) {
  const std::size_t axes = tensor.shape.size();
  const AxisView view(tensor.shape, axes - 2);
  std::vector<float> turned(tensor.values.size());
  for (std::size_t outer = 0; outer < view.outer; outer++) {
    const std::size_t base = outer * view.extent * view.inner;
    for (std::size_t row = 0; row < view.extent; row++) {
      for (std::size_t column = 0; column < view.inner; column++) {
        turned[base + column * view.extent + row] = tensor.values[base + row * view.inner + column];
      }
    }
  }
  tensor.values = std::move(turned);
  std::swap(tensor.shape[axes - 2], tensor.shape[axes - 1]);
}

// Rows of q or k, head by head: new row 2j + t is old row t * (rows of a head) / 2 + j.
void permute(TinyTensor& tensor, std::size_t heads) {
  const AxisView view(tensor.shape, 0);
  const std::size_t rows = view.extent / heads, half = rows / 2;
  std::vector<float> permuted(tensor.values.size());
  for (std::size_t row = 0; row < view.extent; row++) {
    const std::size_t head = row / rows, in_head = row % rows;
    const std::size_t from = head * rows + in_head % 2 * half + in_head / 2;
    std::copy_n(&tensor.values[from * view.inner], view.inner, &permuted[row * view.inner]);
  }
  tensor.values = std::move(permuted);
}

void run_step(TinyTensor& tensor, const JsonArray& step) {
  const std::string name = text_of(step.at(0));
  const auto number = [&](std::size_t at) { return step.at(at).to_number<std::size_t>(); };
  if (name == "add") {
    for (float& value : tensor.values) value += step.at(1).to_number<float>();
  } else if (name == "transpose") {
    transpose(tensor);
  } else if (name == "slice") {
    slice(tensor, number(1), number(2), number(3));
  } else {
    CHECK(name == "permute");
    permute(tensor, number(1));
  }
}

}  // namespace

std::filesystem::path tiny_golden_folder() {
  return REPRISE_GOLDEN_DIR "/tiny";
}

void generate_tiny_weights(std::string_view name, std::uint64_t seed, float centre, float spread,
                           std::vector<float>& values) {
  const std::uint64_t start = fnv1a64(name) ^ (seed * kGolden);
  for (std::size_t i = 0; i < values.size(); i++) {
    const auto top = static_cast<std::int64_t>(mixed(start + (i + 1) * kGolden) >> 40);
    const float u = static_cast<float>(top - (std::int64_t{1} << 23)) / 8388608.0F;
    values[i] = centre + spread * u;
  }
}

TinyCase::TinyCase(const std::string& name) : name_(name) {
  const std::string text = must_read(tiny_golden_folder() / (name + ".json"));
  Result<JsonValue> parsed = parse_json(text);
  if (!parsed) fmt::print(stderr, "tiny case {}: {}\n", name, parsed.error().message);
  CHECK(parsed.has_value());
  description_ = parsed->as_object();
  seed_ = description_.at("seed").to_number<std::uint64_t>();
  vocabulary_ = description_.at("vocabulary").to_number<int>();
  for (const JsonValue& id : description_.at("ids").as_array()) {
    ids_.push_back(id.to_number<TokenId>());
  }
}

std::vector<std::string> TinyCase::forms() const {
  std::vector<std::string> names;
  for (const auto& item : description_.at("forms").as_object()) names.emplace_back(item.key());
  return names;
}

bool TinyCase::has_form(std::string_view form) const {
  return description_.at("forms").as_object().contains(form);
}

const JsonObject& TinyCase::form(std::string_view form) const {
  return description_.at("forms").as_object().at(form).as_object();
}

std::vector<float> TinyCase::logits(std::string_view form) const {
  const std::string file = text_of(this->form(form).at("logits"));
  const std::string bytes = must_read(tiny_golden_folder() / file);
  CHECK(bytes.size() == ids_.size() * static_cast<std::size_t>(vocabulary_) * sizeof(float));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TinyTensor TinyCase::tensor(std::string_view name) const {
  for (const JsonValue& item : description_.at("tensors").as_array()) {
    const JsonObject& entry = item.as_object();
    if (std::string_view(entry.at("name").as_string()) != name) continue;
    TinyTensor tensor;
    for (const JsonValue& extent : entry.at("shape").as_array()) {
      tensor.shape.push_back(extent.to_number<std::int64_t>());
    }
    tensor.values.resize(static_cast<std::size_t>(count(tensor.shape)));
    const std::string kind = text_of(entry.at("kind"));
    const JsonArray& numbers = description_.at("kinds").as_object().at(kind).as_array();
    generate_tiny_weights(name, seed_, numbers.at(0).to_number<float>(),
                          numbers.at(1).to_number<float>(), tensor.values);
    return tensor;
  }
  fmt::print(stderr, "tiny case {}: no tensor {}\n", name_, name);
  CHECK(false);
  std::abort();
}

TinyTensor TinyCase::stored(const JsonObject& entry) const {
  TinyTensor result;
  if (const JsonValue* values = entry.if_contains("values")) {
    for (const JsonValue& value : values->as_array()) {
      result.values.push_back(value.to_number<float>());
    }
    result.shape = {static_cast<std::int64_t>(result.values.size())};
    return result;
  }
  const JsonArray& sources = entry.at("from").as_array();
  for (const JsonValue& source : sources) {
    TinyTensor part = tensor(source.as_string());
    for (const JsonValue& step : entry.at("steps").as_array()) run_step(part, step.as_array());
    result.shape = std::move(part.shape);
    result.values.insert(result.values.end(), part.values.begin(), part.values.end());
  }
  if (sources.size() > 1) {
    result.shape.insert(result.shape.begin(), static_cast<std::int64_t>(sources.size()));
  }
  return result;
}

std::vector<std::string> tiny_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(tiny_golden_folder())) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with(".json")) names.push_back(file.substr(0, file.size() - 5));
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> tiny_forms(const std::string& name) {
  return TinyCase(name).forms();
}

}  // namespace reprise::testing
