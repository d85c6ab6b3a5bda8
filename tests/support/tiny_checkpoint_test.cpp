// The generator, the steps and the quantiser give the same bytes as their Python twins, which made
// the goldens; and what is written can be read again.
#include "support/tiny_checkpoint.h"

#include <set>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/safetensors.h"

namespace reprise::testing {
namespace {

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("reprise_tiny_" + std::to_string(::getpid()) + "_" + name);
}

class TinyCheckpointCase : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyCheckpointCase, StoresTheBytesThatTheGoldensWereMadeWith) {
  const TinyCase tiny(GetParam());
  EXPECT_EQ(tiny.ids().size(), 40U);
  for (const std::string& form : tiny.forms()) {
    std::string content;
    for (const TinyStored& tensor : tiny_stored_tensors(tiny, form)) {
      content += tensor.name + "\n";
      content.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    }
    EXPECT_EQ(sha256_hex(content), tiny.form(form).at("sha256").as_string()) << form;
    EXPECT_EQ(tiny.logits(form).size(), 40U * 320U) << form;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TinyCheckpointCase, ::testing::ValuesIn(tiny_cases()),
                         [](const auto& one) { return one.param; });

TEST(TinyCheckpoint, ShardsHoldWhatOneFileHolds) {
  const TinyCase tiny("qwen2");
  const auto folder = scratch("shards");
  ASSERT_EQ(write_tiny_checkpoint(tiny, "mlx4", folder, {.sharded = true}), folder);
  std::set<std::string> names;
  for (const char* file :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    const Result<SafetensorsFile> shard = SafetensorsFile::open(folder / file);
    ASSERT_TRUE(shard.has_value());
    for (const SafetensorsEntry& entry : shard->entries()) names.insert(entry.name);
  }
  EXPECT_EQ(names.size(), tiny_stored_tensors(tiny, "mlx4").size());
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
  const JsonValue index =
      parse_json(read_file(folder / "model.safetensors.index.json", 1 << 20).value()).value();
  EXPECT_EQ(index.as_object().at("weight_map").as_object().size(), names.size());
  std::filesystem::remove_all(folder);
}

// Bits and groups on request: shapes follow, rows that do not divide stay plain, routers keep 8.
TEST(TinyCheckpoint, OtherBitsAndGroupsOnRequest) {
  const TinyCase tiny("qwen3_moe");
  const auto shape = [&](const TinyCheckpointOptions& options, const std::string& name) {
    for (const TinyStored& tensor : tiny_stored_tensors(tiny, "mlx4", options)) {
      if (tensor.name == name) return tensor.shape;
    }
    return std::vector<std::int64_t>();
  };
  using Shape = std::vector<std::int64_t>;
  const std::string output = "model.layers.0.self_attn.o_proj";  // [64, 128]
  const std::string query = "model.layers.0.self_attn.q_proj";   // [128, 64]
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    EXPECT_EQ(shape({.bits = bits, .group = 32}, output + ".weight"), (Shape{64, bits * 4}));
    EXPECT_EQ(shape({.bits = bits, .group = 32}, output + ".scales"), (Shape{64, 4}));
  }
  EXPECT_EQ(shape({.group = 128}, output + ".biases"), (Shape{64, 1}));
  EXPECT_EQ(shape({.group = 128}, query + ".weight"), (Shape{128, 64}));
  EXPECT_EQ(shape({.group = 128}, query + ".scales"), Shape());
  EXPECT_EQ(shape({.bits = 2, .group = 32}, "model.layers.0.mlp.gate.weight"), (Shape{8, 16}));
}

}  // namespace
}  // namespace reprise::testing
