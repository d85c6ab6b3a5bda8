// The file form: exact round trips, every error by name, any damage found, and the description.
#include "kv/snapshot_file.h"

#include <gtest/gtest.h>

#include "base/safetensors.h"
#include "unit/kv/snapshot_support.h"

namespace reprise {
namespace {

using test::chain_of;
using test::chunk;
using test::kStandard;
using test::sequence_of;
using test::snapshot_of;
using test::tiny_layout;
using test::window;

const SnapshotWords kWords{.family = "llama4"};
constexpr std::size_t kBudget = std::size_t{1} << 24;

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

void expect_equal(const StateSnapshot& got, const StateSnapshot& expected) {
  EXPECT_EQ(got.family, expected.family);
  EXPECT_EQ(got.token_length, expected.token_length);
  ASSERT_EQ(got.tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < expected.tensors.size(); i++) {
    EXPECT_EQ(got.tensors[i].name, expected.tensors[i].name);
    EXPECT_EQ(got.tensors[i].dtype, expected.tensors[i].dtype);
    EXPECT_EQ(got.tensors[i].shape, expected.tensors[i].shape);
    EXPECT_EQ(got.tensors[i].bytes, expected.tensors[i].bytes);
  }
}

StateSnapshot example(kernels::KvType type = kernels::KvType::f16, Position length = 20) {
  PagePool pool(tiny_layout({kStandard, window(16), chunk(8)}, 2, 16, 32, type), kBudget);
  const auto chain = chain_of(static_cast<int>(length));
  return snapshot_of(sequence_of(pool, chain, length), kWords);
}

TEST(SnapshotFile, RoundTripIsExact) {
  for (const auto type : {kernels::KvType::f16, kernels::KvType::bf16, kernels::KvType::f32}) {
    for (const Position length : {0, 1, 20, 70}) {
      const StateSnapshot snapshot = example(type, length);
      const std::string file = write_snapshot(snapshot);
      const Result<StateSnapshot> read = read_snapshot(bytes_of(file));
      ASSERT_TRUE(read.has_value()) << read.error().message;
      expect_equal(*read, snapshot);
      EXPECT_EQ(write_snapshot(*read), file);
    }
  }
}

TEST(SnapshotFile, OrderAndEmptyTensorsSurvive) {
  StateSnapshot snapshot{"x", 3, {}};
  snapshot.tensors.push_back({"z", SnapshotDtype::f16, {2, 0, 3}, {}});
  snapshot.tensors.push_back(test::scalar("b", 7));
  snapshot.tensors.push_back({"a", SnapshotDtype::f32, {0}, {}});
  snapshot.tensors.push_back(test::scalar("c", -1));
  const std::string file = write_snapshot(snapshot);
  const Result<StateSnapshot> read = read_snapshot(bytes_of(file));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  expect_equal(*read, snapshot);
}

TEST(SnapshotFile, IsASafetensorsFileUnderTheContractsNames) {
  const std::string bytes = write_snapshot(example());
  const auto file = SafetensorsFile::parse(bytes_of(bytes));
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->metadata().at("format"), "reprise-snapshot");
  EXPECT_EQ(file->metadata().at("version"), "1");
  EXPECT_EQ(file->metadata().at("family"), "llama4");
  EXPECT_EQ(file->metadata().at("token_length"), "20");
  EXPECT_EQ(file->metadata().at("checksum").size(), 32u);
  ASSERT_NE(file->find("layer2.chunked.keys"), nullptr);
  EXPECT_EQ(file->find("layer2.chunked.keys")->dtype, "F16");
  EXPECT_EQ(file->find("layer1.rotating.idx")->dtype, "I32");
  EXPECT_EQ(file->find("layer1.rotating.keys")->shape, (std::vector<std::int64_t>{1, 2, 16, 16}));
}

// Each single byte of the file, changed: an error, or (in the header's spaces) the same snapshot.
TEST(SnapshotFile, EveryChangedByteIsFound) {
  PagePool pool(tiny_layout({kStandard, chunk(8)}), kBudget);
  const auto chain = chain_of(9);
  const StateSnapshot snapshot = snapshot_of(sequence_of(pool, chain, 9), kWords);
  const std::string good = write_snapshot(snapshot);
  int accepted = 0;
  for (std::size_t at = 0; at < good.size(); at++) {
    for (const int flip : {1, 0x20, 0x80}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      const Result<StateSnapshot> read = read_snapshot(bytes_of(bad));
      if (!read) {
        EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
        continue;
      }
      accepted++;
      expect_equal(*read, snapshot);
    }
  }
  EXPECT_LT(accepted, 50);
  for (std::size_t size = 0; size < good.size(); size++)
    EXPECT_FALSE(read_snapshot(bytes_of(good.substr(0, size))).has_value());
}

struct FileCase {
  Errc code;
  std::string field, says;
  std::function<void(std::map<std::string, std::string>&, std::vector<SafetensorsTensor>&)> spoil;
};

TEST(SnapshotFile, EveryErrorIsNamed) {
  using Meta = std::map<std::string, std::string>;
  using Tensors = std::vector<SafetensorsTensor>;
  const StateSnapshot snapshot = example();
  const std::vector<std::byte> eight(8);
  const std::vector<FileCase> cases = {
      {Errc::corrupt, "format", "__metadata__ has no format",
       [](Meta& m, Tensors&) { m.erase("format"); }},
      {Errc::corrupt, "format", "format is pt, expected reprise-snapshot",
       [](Meta& m, Tensors&) { m["format"] = "pt"; }},
      {Errc::unsupported, "version", "version is 2, expected 1",
       [](Meta& m, Tensors&) { m["version"] = "2"; }},
      {Errc::corrupt, "version", "has no version", [](Meta& m, Tensors&) { m.erase("version"); }},
      {Errc::corrupt, "family", "has no family", [](Meta& m, Tensors&) { m.erase("family"); }},
      {Errc::corrupt, "token_length", "token_length is 20x, expected a number from 0 to 2147483647",
       [](Meta& m, Tensors&) { m["token_length"] = "20x"; }},
      {Errc::corrupt, "token_length", "token_length is -1",
       [](Meta& m, Tensors&) { m["token_length"] = "-1"; }},
      {Errc::corrupt, "token_length", "token_length is 4294967296",
       [](Meta& m, Tensors&) { m["token_length"] = "4294967296"; }},
      {Errc::corrupt, "token_length", "has no token_length",
       [](Meta& m, Tensors&) { m.erase("token_length"); }},
      {Errc::corrupt, "checksum", "has no checksum",
       [](Meta& m, Tensors&) { m.erase("checksum"); }},
      {Errc::corrupt, "checksum", "checksum is 0, expected ",
       [](Meta& m, Tensors&) { m["checksum"] = "0"; }},
      {Errc::corrupt, "checksum", "from the content",
       [](Meta& m, Tensors&) { m["family"] = "gemma3"; }},
      {Errc::corrupt, "checksum", "from the content",
       [](Meta& m, Tensors&) { m["token_length"] = "21"; }},
      {Errc::corrupt, "checksum", "from the content",
       [](Meta&, Tensors& t) { std::swap(t[0], t[1]); }},
      {Errc::corrupt, "checksum", "from the content", [](Meta&, Tensors& t) { t[0].name += "x"; }},
      {Errc::corrupt, "checksum", "from the content", [](Meta&, Tensors& t) { t.pop_back(); }},
      {Errc::corrupt, "checksum", "from the content",
       [](Meta&, Tensors& t) { t[0].dtype = "BF16"; }},
      {Errc::corrupt, "checksum", "from the content",
       [](Meta&, Tensors& t) { std::swap(t[0].shape[2], t[0].shape[3]); }},
      {Errc::unsupported, "more", "tensor more has type I8, expected F16, BF16, F32 or I32",
       [&](Meta&, Tensors& t) { t.push_back({"more", "I8", {8}, eight}); }},
      {Errc::unsupported, "more", "tensor more has type F64, expected F16, BF16, F32 or I32",
       [&](Meta&, Tensors& t) { t.push_back({"more", "F64", {1}, eight}); }},
  };
  for (const FileCase& it : cases) {
    const std::string good = write_snapshot(snapshot);
    const auto file = SafetensorsFile::parse(bytes_of(good));
    ASSERT_TRUE(file.has_value());
    Meta metadata = file->metadata();
    Tensors tensors;
    for (const SafetensorsEntry& entry : file->entries())
      tensors.push_back({entry.name, entry.dtype, entry.shape, entry.bytes});
    it.spoil(metadata, tensors);
    const std::string bad = write_safetensors(tensors, metadata);
    const Result<StateSnapshot> read = read_snapshot(bytes_of(bad));
    ASSERT_FALSE(read.has_value()) << it.says;
    EXPECT_EQ(read.error().code, it.code) << read.error().message;
    EXPECT_EQ(read.error().field, it.field) << read.error().message;
    EXPECT_NE(read.error().message.find(it.says), std::string::npos) << read.error().message;
  }
  EXPECT_FALSE(read_snapshot({}).has_value());
}

TEST(SnapshotFile, DescribesLayerByLayer) {
  StateSnapshot snapshot = example();
  const std::vector<std::string> lines = describe_snapshot(snapshot);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "snapshot of family llama4: 20 tokens, 3 layers, " +
                          std::to_string(snapshot.byte_size()) + " bytes");
  EXPECT_EQ(lines[1],
            "layer0 standard: 20 tokens, keys [1, 2, 20, 16] f16, values [1, 2, 20, 32] f16, "
            "offset 20, mode 0 (fp16)");
  EXPECT_EQ(lines[2],
            "layer1 rotating: 16 tokens, keys [1, 2, 16, 16] f16, values [1, 2, 16, 32] f16, "
            "max_size 16, buffer_size 0, offset 20, start_position 0, idx 16, step 256, "
            "mode 0 (fp16), turbo_seed 2068251652");
  EXPECT_EQ(lines[3],
            "layer2 chunked: 8 tokens, keys [1, 2, 8, 16] f16, values [1, 2, 8, 32] f16, "
            "chunk_size 8, offset 20, start_position 12");
  snapshot.tensors = {test::scalar("layer0.full.mode", 9), test::scalar("odd\n", 1)};
  const std::vector<std::string> odd = describe_snapshot(snapshot);
  ASSERT_EQ(odd.size(), 3u);
  EXPECT_EQ(odd[1], "layer0 full: 0 tokens, mode 9 (unknown)");
  EXPECT_EQ(odd[2].find('\n'), std::string::npos);
}

}  // namespace
}  // namespace reprise
