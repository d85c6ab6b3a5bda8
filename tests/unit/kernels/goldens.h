// Reading the goldens of the weight types (tools/goldens/weight_types.py).
#pragma once
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace reprise::kernels {

inline std::vector<std::byte> read_golden(const std::string& name) {
  std::ifstream file(std::string(REPRISE_WEIGHT_TYPE_GOLDENS) + "/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

}  // namespace reprise::kernels
