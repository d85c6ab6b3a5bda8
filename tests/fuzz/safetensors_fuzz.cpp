// Fuzzes the safetensors reader: any bytes are refused in one line or read within their bounds.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "support/safetensors_exercise.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reprise::testing::exercise_safetensors(std::as_bytes(std::span(data, size)));
  if (size < 8) return 0;
  // Once more with a header length that fits up to the last brace: a mutation that changes the
  // header's length would else never be seen.
  std::vector<std::uint8_t> fitted(data, data + size);
  std::uint64_t header = size - 8;
  while (header > 0 && fitted[8 + header - 1] != '}') header--;
  std::memcpy(fitted.data(), &header, sizeof header);
  reprise::testing::exercise_safetensors(std::as_bytes(std::span(fitted)));
  return 0;
}
