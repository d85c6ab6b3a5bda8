// Fuzzes the GGUF reader: any bytes are refused in one line or read within their bounds.
#include <cstddef>
#include <cstdint>
#include <span>

#include "support/gguf_exercise.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reprise::testing::exercise_gguf(std::as_bytes(std::span(data, size)));
  return 0;
}
