// Touches everything that a GGUF file gave out, so that sanitizers see each view. Shared by the
// unit test and the fuzzer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/check.h"
#include "model/gguf.h"

namespace reprise::testing {

inline bool lies_within(std::span<const std::byte> outer, const void* begin, std::size_t size) {
  const auto* first = static_cast<const std::byte*>(begin);
  return size == 0 || (first >= outer.data() && first + size <= outer.data() + outer.size());
}

// An error is one printable line; a file keeps its promises: every view inside `bytes`, every name
// found again, every getter answers. Violations are CHECK failures.
inline void exercise_gguf(std::span<const std::byte> bytes) {
  const auto file = GgufFile::parse(bytes);
  const auto check_line = [](const std::string& line) {
    CHECK(!line.empty() && line.size() < 1000);
    for (const char c : line) CHECK(c >= 0x20 && c < 0x7F);
  };
  if (!file) return check_line(file.error().message);
  std::uint64_t sum = 0;
  for (const GgufTensor& tensor : file->tensors()) {
    CHECK(file->find_tensor(tensor.name) == &tensor);
    CHECK(lies_within(bytes, tensor.name.data(), tensor.name.size()));
    CHECK(lies_within(bytes, tensor.bytes.data(), tensor.bytes.size()));
    CHECK(tensor.elements() > 0);
    CHECK(tensor.type.has_value() || tensor.bytes.empty());
    for (const std::byte byte : tensor.bytes) sum += static_cast<std::uint64_t>(byte);
    if (file->file() != nullptr) file->file()->release(tensor.offset, tensor.bytes.size());
    CHECK(!ggml_type_name(tensor.type_id).empty());
  }
  const auto answered = [&](const auto& result) {
    if (!result) check_line(result.error().message);
  };
  for (const auto& [key, value] : file->metadata()) {
    CHECK(file->find(key) == &value);
    answered(file->integer(key));
    answered(file->number(key));
    answered(file->boolean(key));
    answered(file->text(key));
    answered(file->integers(key));
    answered(file->numbers(key));
    const auto texts = file->texts(key);
    answered(texts);
    if (!texts) continue;
    for (const std::string_view text : *texts) {
      CHECK(lies_within(bytes, text.data(), text.size()));
      for (const char c : text) sum += static_cast<unsigned char>(c);
    }
  }
  CHECK(sum != UINT64_MAX);  // keeps the reads alive
}

}  // namespace reprise::testing
