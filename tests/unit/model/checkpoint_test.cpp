// Checkpoints of safetensors folders: which files count, the index, and what is refused.
#include "model/checkpoint.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/checkpoint_files.h"
#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace reprise {
namespace {

using testing::CheckpointFolder;
using testing::SafetensorsWriter;
using testing::TemporaryFolder;
using Shape = std::vector<std::int64_t>;

constexpr const char* kConfig = R"({"model_type":"llama","sliding_window":null})";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

std::string file_with(const std::vector<std::string>& names) {
  SafetensorsWriter writer;
  for (const std::string& name : names) {
    writer.add_f32(name, {1, 2}, std::vector<float>{1, 2});
  }
  return writer.finish();
}

std::string index_of(const std::vector<std::pair<std::string, std::string>>& weight_map) {
  std::string json = R"({"metadata":{"total_size":16},"weight_map":{)";
  for (const auto& [tensor, file] : weight_map) {
    if (json.back() != '{') json += ',';
    json += "\"" + tensor + "\":\"" + file + "\"";
  }
  return json + "}}";
}

std::string error_of(const std::filesystem::path& path) {
  const auto checkpoint = Checkpoint::open(path);
  return checkpoint ? "no error" : checkpoint.error().message;
}

void expect_error(const std::filesystem::path& path, const std::vector<std::string>& parts,
                  Errc code) {
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_FALSE(checkpoint) << "expected: " << parts.front();
  EXPECT_EQ(checkpoint.error().code, code) << checkpoint.error().message;
  EXPECT_EQ(checkpoint.error().message.find('\n'), std::string::npos);
  for (const std::string& part : parts) {
    EXPECT_NE(checkpoint.error().message.find(part), std::string::npos)
        << checkpoint.error().message << "\nexpected: " << part;
  }
}

// config.json and two files with an index: a, b | c.
class TwoFiles : public TemporaryFolder {
 public:
  TwoFiles() {
    write("config.json", kConfig);
    write(kFirst, file_with({"a", "b"}));
    write(kSecond, file_with({"c"}));
    write(kIndex, index_of({{"a", kFirst}, {"b", kFirst}, {"c", kSecond}}));
  }
};

TEST(Checkpoint, ReadsAFolderWithOneFile) {
  SafetensorsWriter writer;
  writer.add_u32("q.weight", {2, 4}, std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8});
  writer.add_bf16("q.scales", {2, 1}, std::vector<float>{1.0f, -2.0f});
  writer.add_f32("norm.weight", {2}, std::vector<float>{3, 4});
  writer.add("half", "F16", {1}, std::vector<std::byte>(2));
  const CheckpointFolder folder(kConfig, writer);
  auto opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(opened) << opened.error().message;
  const Checkpoint checkpoint = std::move(*opened);  // views survive the move
  EXPECT_EQ(checkpoint.format(), CheckpointFormat::safetensors);
  EXPECT_EQ(checkpoint.gguf(), nullptr);
  EXPECT_EQ(checkpoint.folder(), folder.path());
  ASSERT_NE(checkpoint.config(), nullptr);
  EXPECT_EQ(checkpoint.config()->at("model_type").as_string(), "llama");
  ASSERT_EQ(checkpoint.tensors().size(), 4u);
  const StoredTensor* weight = checkpoint.find("q.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->shape, (Shape{2, 4}));
  EXPECT_EQ(weight->type_name, "U32");
  EXPECT_EQ(weight->type, std::nullopt);
  EXPECT_EQ(weight->bytes.size(), 32u);
  checkpoint.file(*weight)->release(weight->offset, weight->bytes.size());
  EXPECT_EQ(weight->bytes[28], std::byte{8});
  EXPECT_EQ(checkpoint.find("q.scales")->type, kernels::WeightType::bf16);
  EXPECT_EQ(checkpoint.find("q.scales")->bytes[3], std::byte{0xC0});
  EXPECT_EQ(checkpoint.find("norm.weight")->type, kernels::WeightType::f32);
  EXPECT_EQ(checkpoint.find("half")->type, kernels::WeightType::f16);
  EXPECT_EQ(checkpoint.find("q.biases"), nullptr);
}

TEST(Checkpoint, AnyFileOfTheFolderMeansTheFolder) {
  const TwoFiles folder;
  for (const char* name : {"", "config.json", kIndex, kFirst, kSecond}) {
    const auto checkpoint = Checkpoint::open(folder.path() / name);
    ASSERT_TRUE(checkpoint) << name << ": " << checkpoint.error().message;
    ASSERT_EQ(checkpoint->tensors().size(), 3u);
    EXPECT_EQ(checkpoint->find("a")->file, 0);
    EXPECT_EQ(checkpoint->find("c")->file, 1);
  }
  folder.write("vision.safetensors", file_with({"v"}));
  expect_error(folder.path() / "vision.safetensors",
               {"vision.safetensors is not one of the model's 2 files"}, Errc::invalid_argument);
  expect_error(folder.path() / "none.safetensors", {"cannot open"}, Errc::not_found);
}

TEST(Checkpoint, WithoutAnIndexTakesModelFilesOnly) {
  const TwoFiles folder;
  folder.remove(kIndex);
  folder.write("consolidated.safetensors", file_with({"a", "other"}));
  folder.write("optiq_vision.safetensors", file_with({"v"}));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 3u);
  folder.remove(kFirst);
  expect_error(folder.path(), {"1 files of the split model 'model', expected 2"}, Errc::not_found);
}

TEST(Checkpoint, FollowsLinks) {
  const TemporaryFolder blobs;
  const TemporaryFolder folder;
  blobs.write("0", kConfig);
  blobs.write("1", file_with({"a"}));
  std::filesystem::create_symlink(blobs.path() / "0", folder.path() / "config.json");
  std::filesystem::create_symlink(blobs.path() / "1", folder.path() / "model.safetensors");
  EXPECT_EQ(error_of(folder.path()), "no error");
  EXPECT_EQ(error_of(folder.path() / "model.safetensors"), "no error");
  blobs.remove("1");
  expect_error(folder.path(), {"cannot open", "model.safetensors"}, Errc::not_found);
}

TEST(Checkpoint, TheIndexDecides) {
  const TwoFiles folder;
  folder.write("model-extra.safetensors", file_with({"a", "d"}));  // not in the index: not opened
  EXPECT_EQ(error_of(folder.path()), "no error");
  folder.write(kIndex, index_of({{"a", kFirst}}));  // tensors it does not name may stay
  EXPECT_EQ(Checkpoint::open(folder.path())->tensors().size(), 2u);
  folder.write(kIndex, index_of({{"a", kSecond}, {"c", kFirst}}));
  expect_error(folder.path(),
               {std::string("tensor 'a': in ") + kFirst + ", expected in " + kSecond},
               Errc::corrupt);
  folder.write(kIndex, index_of({{"a", kFirst}, {"x", kSecond}}));
  expect_error(folder.path(), {std::string("tensor 'x': in no file, expected in ") + kSecond},
               Errc::corrupt);
  folder.write(kIndex, index_of({{"a", kFirst}, {"x", "model-3.safetensors"}}));
  expect_error(folder.path(),
               {"1 of 2 files of model.safetensors.index.json are missing",
                "model-3.safetensors (is the download complete?)"},
               Errc::not_found);
  folder.write(kSecond, file_with({"c", "b"}));
  folder.write(kIndex, index_of({{"b", kFirst}, {"c", kSecond}}));
  expect_error(folder.path(), {kSecond, "tensor 'b': is there twice (files 1 and 2"},
               Errc::corrupt);
}

TEST(Checkpoint, RefusesHostileIndexes) {
  const TwoFiles folder;
  const std::vector<std::pair<std::string, const char*>> cases = {
      {index_of({{"a", "../model.safetensors"}}), "tensor 'a': lies in '../model.safetensors'"},
      {index_of({{"a", "/model.safetensors"}}), "expected a plain file name"},
      {index_of({{"a", "..safetensors"}}), "expected a plain file name"},
      {index_of({{"a", "b\\\\model.safetensors"}}), "expected a plain file name"},
      {index_of({{"a", "b\\u002fmodel.safetensors"}}), "lies in 'b/model.safetensors'"},
      {index_of({{"a", "config.json"}}), "expected a name that ends in .safetensors"},
      {index_of({{"a", ""}}), "expected a name that ends in .safetensors"},
      {index_of({{"a", "consolidated.safetensors"}}), "expected model*.safetensors"},
      {index_of({{"a", kFirst}, {"a", kSecond}}), "the name \"a\" twice"},
      {index_of({}), "'weight_map' names 0 tensors, expected at least 1"},
      {R"({"weight_map":{"a":7}})", "tensor 'a': lies in 7, expected a file name"},
      {R"({"weight_map":[]})", "'weight_map' is no object"},
      {R"({"metadata":{}})", "no 'weight_map', expected"},
      {"[]", "not an object, expected"},
      {"{", "the text ends too early"},
      {"", "the text ends too early"},
  };
  for (const auto& [json, part] : cases) {
    folder.write(kIndex, json);
    expect_error(folder.path(), {kIndex, part}, Errc::corrupt);
    EXPECT_FALSE(parse_safetensors_index(json)) << json;
  }
}

TEST(Checkpoint, SaysWhatAFolderLacks) {
  const TemporaryFolder folder;
  expect_error(folder.path(), {"no model, expected a .gguf file, or config.json with model*"},
               Errc::not_found);
  folder.write("config.json", kConfig);
  expect_error(folder.path(), {"config.json without weights"}, Errc::not_found);
  folder.write("consolidated.safetensors", file_with({"a"}));
  expect_error(folder.path(), {"only consolidated.safetensors, expected model*.safetensors"},
               Errc::invalid_argument);
  folder.write("pytorch_model-00001-of-00001.bin", "PK");
  expect_error(folder.path(),
               {"PyTorch weights only (pytorch_model-00001-of-00001.bin), expected "
                "model*.safetensors"},
               Errc::unsupported);
  folder.write("model.safetensors", file_with({"a"}));
  EXPECT_EQ(error_of(folder.path()), "no error");
  folder.write("model.gguf", testing::GgufWriter().finish());
  EXPECT_EQ(error_of(folder.path()), "no error");  // config.json and safetensors come first
  folder.remove("model.gguf");
  folder.remove("config.json");
  expect_error(folder.path(), {"no config.json beside the safetensors"}, Errc::not_found);
  expect_error(folder.path() / "model.safetensors", {"no config.json"}, Errc::not_found);
  expect_error(folder.path() / "nowhere", {"cannot open"}, Errc::not_found);
}

TEST(Checkpoint, RefusesBadConfigsAndFiles) {
  const TwoFiles folder;
  folder.write("config.json", "[1]");
  expect_error(folder.path(), {"config.json: an array, expected a JSON object"}, Errc::corrupt);
  folder.write("config.json", "\"text\"");
  expect_error(folder.path(), {"config.json: \"text\", expected a JSON object"}, Errc::corrupt);
  folder.write("config.json", "{\"a\":1,}");
  expect_error(folder.path(), {"config.json: invalid JSON at byte"}, Errc::corrupt);
  folder.write("config.json", kConfig);
  folder.write(kSecond, file_with({"c"}).substr(0, 40));
  expect_error(folder.path(), {std::string(kSecond) + ": safetensors header of", "32 bytes"},
               Errc::corrupt);
}

}  // namespace
}  // namespace reprise
