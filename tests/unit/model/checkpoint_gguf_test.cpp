// Checkpoints of GGUF files: whole, split, and in a folder.
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/checkpoint.h"
#include "model/checkpoint_files.h"
#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace reprise {
namespace {

using testing::GgufWriter;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;
using Shape = std::vector<std::int64_t>;

constexpr std::uint32_t kQ5_0 = 6, kIQ3_S = 21;

std::string error_of(const Result<Checkpoint>& checkpoint) {
  return checkpoint ? "no error" : checkpoint.error().message;
}

void expect_error(const std::filesystem::path& path, const std::vector<std::string>& parts,
                  Errc code) {
  const auto checkpoint = Checkpoint::open(path);
  for (const std::string& part : parts) {
    EXPECT_NE(error_of(checkpoint).find(part), std::string::npos)
        << error_of(checkpoint) << "\nexpected: " << part;
  }
  if (checkpoint) return;
  EXPECT_EQ(checkpoint.error().code, code) << checkpoint.error().message;
}

Bytes whole_model() {
  GgufWriter writer;
  writer.add_text("general.architecture", "llama");
  writer.add_tensor("blk.0.ffn_up_exps.weight", {64, 2, 3}, kQ5_0, Bytes(12 * 22, std::byte{7}));
  writer.add_tensor("blk.0.ffn_down.weight", {256}, kIQ3_S, Bytes(136));
  writer.add_tensor("output_norm.weight", {2}, std::vector<float>{8, 9});
  return writer.finish();
}

// Part `number` (from 1); `tensors` of one float each.
GgufWriter part(int number, int count, int tensors_total, const std::vector<std::string>& tensors) {
  GgufWriter writer;
  writer.add_integer("split.no", static_cast<std::uint32_t>(number - 1));
  writer.add_integer("split.count", static_cast<std::uint32_t>(count));
  writer.add_integer("split.tensors.count", static_cast<std::uint32_t>(tensors_total));
  if (number == 1) writer.add_text("general.architecture", "llama");
  for (const std::string& name : tensors) {
    writer.add_tensor(name, {1}, std::vector<float>{static_cast<float>(number)});
  }
  return writer;
}

void write_good_set(const TemporaryFolder& folder) {
  folder.write("m-00001-of-00003.gguf", part(1, 3, 4, {"a"}).finish());
  folder.write("m-00002-of-00003.gguf", part(2, 3, 4, {"b", "c"}).finish());
  folder.write("m-00003-of-00003.gguf", part(3, 3, 4, {"d"}).finish());
}

TEST(CheckpointGguf, ReversesDimensionsAndKeepsTypes) {
  const Bytes bytes = whole_model();
  auto opened = Checkpoint::from_gguf_bytes(bytes);
  ASSERT_TRUE(opened) << opened.error().message;
  const Checkpoint checkpoint = std::move(*opened);  // views survive the move
  EXPECT_EQ(checkpoint.format(), CheckpointFormat::gguf);
  ASSERT_NE(checkpoint.gguf(), nullptr);
  EXPECT_EQ(checkpoint.gguf()->text("general.architecture").value(), "llama");
  EXPECT_EQ(checkpoint.config(), nullptr);
  EXPECT_TRUE(checkpoint.folder().empty());
  ASSERT_EQ(checkpoint.tensors().size(), 3u);
  const StoredTensor* experts = checkpoint.find("blk.0.ffn_up_exps.weight");
  ASSERT_NE(experts, nullptr);
  EXPECT_EQ(experts, &checkpoint.tensors()[0]);
  EXPECT_EQ(experts->shape, (Shape{3, 2, 64}));
  EXPECT_EQ(experts->type_name, "Q5_0");
  EXPECT_EQ(experts->type, kernels::WeightType::q5_0);
  EXPECT_EQ(experts->bytes.size(), 264u);
  EXPECT_EQ(experts->bytes.data(), bytes.data() + experts->offset);
  const StoredTensor* unsupported = checkpoint.find("blk.0.ffn_down.weight");
  ASSERT_NE(unsupported, nullptr);
  EXPECT_EQ(unsupported->type_name, "IQ3_S");
  EXPECT_EQ(unsupported->type, std::nullopt);
  EXPECT_EQ(checkpoint.find("nothing"), nullptr);
  EXPECT_EQ(checkpoint.file(*experts), nullptr) << "bytes in memory have no file";
}

TEST(CheckpointGguf, OpensAFileByAnyNameAndAFolderWithOneModel) {
  const TemporaryFolder folder;
  const auto path = folder.write("sha256-0123", whole_model());
  const auto by_name = Checkpoint::open(path);
  ASSERT_TRUE(by_name) << by_name.error().message;
  EXPECT_EQ(by_name->folder(), folder.path());
  folder.write("model.gguf", whole_model());
  folder.write("mmproj-f16.gguf", "a vision projector is not the model");
  folder.write("config.json", "{}");  // without safetensors it changes nothing
  const auto by_folder = Checkpoint::open(folder.path());
  ASSERT_TRUE(by_folder) << by_folder.error().message;
  EXPECT_EQ(by_folder->tensors().size(), 3u);
  EXPECT_EQ(by_folder->folder(), folder.path());
  folder.write("other.gguf", whole_model());
  expect_error(folder.path(), {"holds 2 GGUF models, expected 1", "model.gguf, other.gguf"},
               Errc::invalid_argument);
  expect_error(folder.path() / "none.gguf", {"cannot open", "none.gguf"}, Errc::not_found);
  expect_error(folder.write("text.gguf", "some text"),
               {"text.gguf: not a GGUF file: it starts with 'some'"}, Errc::corrupt);
}

TEST(CheckpointGguf, OpensASplitSetByAnyPartAndByItsFolder) {
  const TemporaryFolder folder;
  write_good_set(folder);
  for (const char* name : {"m-00001-of-00003.gguf", "m-00003-of-00003.gguf", ""}) {
    const auto checkpoint = Checkpoint::open(folder.path() / name);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    ASSERT_EQ(checkpoint->tensors().size(), 4u);
    EXPECT_TRUE(checkpoint->gguf()->find("general.architecture") != nullptr);  // part 1
    const StoredTensor* last = checkpoint->find("d");
    ASSERT_NE(last, nullptr);
    EXPECT_EQ(last->file, 2);
    checkpoint->file(*last)->release(last->offset, last->bytes.size());
    float value = 0;
    ASSERT_EQ(last->bytes.size(), sizeof value);
    std::memcpy(&value, last->bytes.data(), sizeof value);
    EXPECT_EQ(value, 3.0f);
  }
}

TEST(CheckpointGguf, RefusesIncompleteAndMixedSets) {
  const TemporaryFolder folder;
  write_good_set(folder);
  const auto first = folder.path() / "m-00001-of-00003.gguf";
  const auto second = [&](const GgufWriter& writer) {
    folder.write("m-00002-of-00003.gguf", writer.finish());
  };
  second(part(2, 4, 4, {"b", "c"}));
  expect_error(first, {"m-00002-of-00003.gguf: metadata key 'split.count': 4, expected 3"},
               Errc::corrupt);
  second(part(3, 3, 4, {"b", "c"}));
  expect_error(first, {"m-00002-of-00003.gguf: metadata key 'split.no': 2, expected 1"},
               Errc::corrupt);
  second(part(2, 3, 4, {"b"}));
  expect_error(first, {"'split.tensors.count': 4, expected 3"}, Errc::corrupt);
  second(part(2, 3, 4, {"b", "a"}));
  expect_error(first, {"m-00002", "tensor 'a': is there twice (files 1 and 2 of the model)"},
               Errc::corrupt);
  second(GgufWriter());
  expect_error(first, {"'split.count': absent, expected 3"}, Errc::corrupt);
  folder.remove("m-00002-of-00003.gguf");
  for (const auto& path : {first, folder.path()}) {
    expect_error(path, {"part 2 of 3 is missing: m-00002-of-00003.gguf"}, Errc::not_found);
  }
  expect_error(folder.write("n-00004-of-00003.gguf", whole_model()),
               {"part 4 of 3, expected a part from 1"}, Errc::invalid_argument);
}

TEST(CheckpointGguf, RefusesAPartUnderAnotherName) {
  const TemporaryFolder folder;
  const Bytes bytes = part(1, 3, 4, {"a"}).finish();
  expect_error(folder.write("renamed.gguf", bytes),
               {"renamed.gguf: 1 part of a model split into 3", "-00001-of-00003.gguf"},
               Errc::invalid_argument);
  EXPECT_NE(error_of(Checkpoint::from_gguf_bytes(bytes)).find("split into 3"), std::string::npos);
  // One part of one is whole, with and without the keys.
  folder.write("a-00001-of-00001.gguf", part(1, 1, 1, {"a"}).finish());
  EXPECT_EQ(error_of(Checkpoint::open(folder.path() / "a-00001-of-00001.gguf")), "no error");
  folder.write("b-00001-of-00001.gguf", whole_model());
  EXPECT_EQ(error_of(Checkpoint::open(folder.path() / "b-00001-of-00001.gguf")), "no error");
}

TEST(CheckpointGguf, SplitNames) {
  const auto name = parse_split_name("a-b-00002-of-00013.gguf", ".gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "a-b");
  EXPECT_EQ(name->number, 2);
  EXPECT_EQ(name->count, 13);
  EXPECT_EQ(split_file_name(*name, 7, ".gguf"), "a-b-00007-of-00013.gguf");
  for (const char* other :
       {"a-0002-of-00013.gguf", "a-00002-of-00013.bin", "a-00002of-00013.gguf", "a.gguf", ".gguf",
        "a00002-of-00013.gguf", "a-00002-of-99999999999.gguf", "-of-00001.gguf", ""}) {
    EXPECT_FALSE(parse_split_name(other, ".gguf")) << other;
  }
}

}  // namespace
}  // namespace reprise
