// safetensors reader and writer: good files are read exactly, hostile ones end in one line that
// names what is wrong.
#include "base/safetensors.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/safetensors_exercise.h"
#include "support/safetensors_writer.h"

namespace reprise {
namespace {

using testing::raw_safetensors;
using testing::SafetensorsWriter;
using testing::TemporaryFolder;
using Shape = std::vector<std::int64_t>;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// One of everything that models have.
std::string good_file() {
  SafetensorsWriter writer;
  writer.add_metadata("format", "mlx");
  writer.add_metadata("quote\"d", "line\nbreak é");
  writer.add_u32("layers.0.weight", {2, 4}, std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8});
  writer.add_bf16("layers.0.scales", {2, 1}, std::vector<float>{1.0f, -0.5f});
  writer.add("odd bytes", "U8", {3}, bytes_of("abc"));
  writer.add_f32("norm \"é\"", {}, std::vector<float>{9});  // at an odd offset
  writer.add("none", "F16", {0, 7}, {});
  return writer.finish();
}

std::string error_of(std::string_view file) {
  const auto read = SafetensorsFile::parse(bytes_of(file));
  if (read) return "no error";
  EXPECT_EQ(read.error().code, Errc::corrupt);
  return read.error().message;
}

TEST(Safetensors, ReadsWhatItWrote) {
  const std::string content = good_file();
  std::uint64_t header = 0;
  std::memcpy(&header, content.data(), sizeof header);
  EXPECT_EQ(header % 8, 0u);
  const auto file = SafetensorsFile::parse(bytes_of(content));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->metadata(),
            (std::map<std::string, std::string>{{"format", "mlx"}, {"quote\"d", "line\nbreak é"}}));
  ASSERT_EQ(file->entries().size(), 5u);
  EXPECT_EQ(file->entries()[0].name, "layers.0.weight");
  EXPECT_EQ(file->entries()[4].name, "none");
  const SafetensorsEntry* weight = file->find("layers.0.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->dtype, "U32");
  EXPECT_EQ(weight->shape, (Shape{2, 4}));
  EXPECT_EQ(weight->offset, 8 + header);
  ASSERT_EQ(weight->bytes.size(), 32u);
  EXPECT_EQ(weight->bytes[28], std::byte{8});
  const SafetensorsEntry* norm = file->find("norm \"é\"");
  ASSERT_NE(norm, nullptr);
  EXPECT_TRUE(norm->shape.empty());
  float value = 0;
  ASSERT_EQ(norm->bytes.size(), sizeof value);
  std::memcpy(&value, norm->bytes.data(), sizeof value);
  EXPECT_EQ(value, 9.0f);
  EXPECT_EQ(norm->offset % 2, 1u);
  EXPECT_EQ(file->find("none")->shape, (Shape{0, 7}));
  EXPECT_TRUE(file->find("none")->bytes.empty());
  EXPECT_EQ(file->find("__metadata__"), nullptr);
  EXPECT_TRUE(testing::exercise_safetensors(bytes_of(content)));
}

TEST(Safetensors, WritesTheFormatByteForByte) {
  const std::vector<std::byte> data = {std::byte{1}, std::byte{2}};
  const SafetensorsTensor tensors[] = {{"a", "U8", {2}, data}};
  const std::string header = R"({"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[2],)"
                             R"("data_offsets":[0,2]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(padded.size());
  EXPECT_EQ(write_safetensors(tensors, {{"k", "v"}}), expected + padded + "\1\2");
  EXPECT_EQ(write_safetensors({}, {}), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(Safetensors, OpensFilesAndSurvivesMoves) {
  const TemporaryFolder folder;
  auto opened = SafetensorsFile::open(folder.write("a.safetensors", good_file()));
  ASSERT_TRUE(opened) << opened.error().message;
  std::vector<SafetensorsFile> files;
  const SafetensorsEntry* before = opened->find("odd bytes");
  files.push_back(std::move(*opened));
  const SafetensorsEntry* entry = files[0].find("odd bytes");
  EXPECT_EQ(entry, before);
  files[0].file()->release(entry->offset, entry->bytes.size());
  EXPECT_EQ(entry->bytes[2], std::byte{'c'});  // released pages come back from the file
  std::filesystem::create_symlink(folder.path() / "a.safetensors", folder.path() / "link");
  EXPECT_TRUE(SafetensorsFile::open(folder.path() / "link"));

  const auto cut = SafetensorsFile::open(folder.write("cut.safetensors", "1234567"));
  ASSERT_FALSE(cut);
  EXPECT_NE(cut.error().message.find("cut.safetensors: not a safetensors file: 7 bytes"),
            std::string::npos)
      << cut.error().message;
  const auto none = SafetensorsFile::open(folder.path() / "none.safetensors");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::not_found);
}

TEST(Safetensors, AcceptsGapsUnknownDtypesAndSubBytes) {
  const std::string content = raw_safetensors(
      R"({"__metadata__":null,"later":{"dtype":"F32","shape":[1],"data_offsets":[12,16]},)"
      R"("odd":{"dtype":"X9","shape":[7,7],"data_offsets":[1,4]},)"
      R"("half":{"dtype":"F4","shape":[3,2],"data_offsets":[4,7],"extra":[1]}})"
      "   \n ",
      20);
  const auto file = SafetensorsFile::parse(bytes_of(content));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->entries()[0].name, "later");
  EXPECT_EQ(file->find("later")->bytes[0], std::byte{12});
  EXPECT_EQ(file->find("odd")->dtype, "X9");
  EXPECT_EQ(file->find("odd")->bytes.size(), 3u);
  EXPECT_EQ(file->find("half")->bytes.size(), 3u);
  EXPECT_TRUE(testing::exercise_safetensors(bytes_of(content)));
}

// An empty tensor shares no byte, wherever it is said to lie.
TEST(Safetensors, EmptyTensorsNeverOverlap) {
  const std::string content =
      raw_safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                      R"("e":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},)"
                      R"("f":{"dtype":"F32","shape":[0],"data_offsets":[8,8]},)"
                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                      12);
  EXPECT_EQ(error_of(content), "no error");
}

struct Hostile {
  std::string entry;  // what the header says of tensor "t", or a whole header when it begins with {
  std::vector<const char*> expected;  // parts of the message
};

std::string described(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets);
}

std::vector<Hostile> hostile_entries() {
  return {
      {described("F32", "[2]", "[0,9]"), {"9 bytes of data, expected 8 for 2 elements of F32"}},
      {described("F32", "[2]", "[0,4]"), {"4 bytes of data, expected 8"}},
      {described("F32", "[]", "[0,0]"), {"0 bytes of data, expected 4 for 1 elements"}},
      {described("F4", "[3]", "[0,2]"), {"3 elements of 4 bits (F4), expected whole bytes"}},
      {described("F32", "[-1]", "[0,4]"), {"dimension 0 is -1, expected an integer 0..9223"}},
      {described("F32", "[1,18446744073709551615]", "[0,4]"),
       {"dimension 1 is 18446744073709551615"}},
      {described("F32", "[1.5]", "[0,4]"), {"dimension 0 is 1.5"}},
      {described("F32", "[[1]]", "[0,4]"), {"dimension 0 is an array"}},
      {described("F32", "[4294967296,4294967296]", "[0,0]"),
       {"4294967296 times 4294967296 elements, expected less than 2^63"}},
      // 2^64 elements wrap to 0, and 2^61 * 64 bits do too.
      {described("U8", "[4294967296,4294967296,1]", "[0,0]"), {"expected less than 2^63"}},
      {described("I64", "[2305843009213693952]", "[0,0]"),
       {"2305843009213693952 elements of 64 bits (I64), expected less than 2^64 bits"}},
      {described("X9", "[4294967296,4294967296]", "[0,0]"), {"expected less than 2^63"}},
      {described("F32", "[2]", "[8,0]"), {"data_offsets [8, 0], expected begin <= end"}},
      {described("F32", "[2]", "[12,20]"), {"data_offsets [12, 20], but the file has 16 bytes"}},
      {described("F32", "[2]", "[9223372036854775800,9223372036854775807]"),
       {"but the file has 16 bytes"}},
      {described("F32", "[2]", "[-8,0]"), {"data_offsets [-8, 0], expected two integers"}},
      {described("F32", "[2]", "[0,8,16]"), {"data_offsets: 3 items, expected 2"}},
      {described("F32", "[2]", "{}"), {"data_offsets: an object"}},
      {described("F32", "2", "[0,8]"), {"a shape of 2, expected an array"}},
      {R"("dtype":4,"shape":[2],"data_offsets":[0,8])", {"a dtype of 4, expected a text"}},
      {R"("shape":[2],"data_offsets":[0,8])", {"no 'dtype' in the header"}},
      {R"("dtype":"F32","data_offsets":[0,8])", {"no 'shape' in the header"}},
      {R"("dtype":"F32","shape":[2])", {"no 'data_offsets' in the header"}},
  };
}

TEST(Safetensors, HostileEntries) {
  for (const Hostile& hostile : hostile_entries()) {
    const std::string content = raw_safetensors("{\"t\":{" + hostile.entry + "}}", 16);
    const std::string message = error_of(content);
    EXPECT_TRUE(message.starts_with("tensor 't': ")) << message;
    for (const char* part : hostile.expected) {
      EXPECT_NE(message.find(part), std::string::npos) << message << "\nexpected: " << part;
    }
    testing::exercise_safetensors(bytes_of(content));
  }
}

TEST(Safetensors, HostileHeaders) {
  const std::string entry = "{" + described("F32", "[2]", "[0,8]") + "}";
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"{\"t\":" + entry + ",\"u\":{" + described("U8", "[3]", "[7,10]") + "}}",
       "tensor 'u': starts at byte"},
      {"{\"t\":" + entry + ",\"t\":" + entry + "}", "the name \"t\" twice in one object"},
      {"{\"a\\nb\":1}", "tensor 'a\\x0ab': described by 1, expected an object"},
      {"{\"t\":" + entry + "} x", "more text after the value"},
      {"[" + entry + "]", "safetensors header: an array, expected an object"},
      {"", "the text ends too early"},
      {"{\"a\\n\":1,\"a\\n\":1}", "the name \"a\\n\" twice"},
      {"{\"\xFF\":1}", "safetensors header: invalid JSON"},
      {"{\"t\":[[[[[[[[[[1]]]]]]]]]]}", "got 11 levels of nesting, expected at most 8"},
      {"{\"__metadata__\":{\"k\":1}}", "metadata 'k': 1, expected a text"},
      {"{\"__metadata__\":[]}", "metadata: an array, expected an object"},
  };
  for (const auto& [header, part] : cases) {
    const std::string content = raw_safetensors(header, 16);
    EXPECT_NE(error_of(content).find(part), std::string::npos)
        << error_of(content) << "\nexpected: " << part;
    testing::exercise_safetensors(bytes_of(content));
  }
  std::string lying = raw_safetensors("{}", 0);
  lying[0] = 3;
  EXPECT_EQ(error_of(lying),
            "safetensors header of 3 bytes, but 2 bytes are left (is the download complete?)");
  lying[7] = 1;
  EXPECT_EQ(error_of(lying),
            "not a safetensors file: a header of 72057594037927939 bytes, expected at most "
            "100000000");
  EXPECT_EQ(error_of(""), "not a safetensors file: 0 bytes, expected at least 8");
}

TEST(Safetensors, TruncatedAnywhereIsRefused) {
  const std::string content = good_file();
  for (std::size_t size = 0; size < content.size(); size++) {
    const std::string cut = content.substr(0, size);  // its own copy: a read past it is seen
    EXPECT_FALSE(testing::exercise_safetensors(bytes_of(cut))) << size;
  }
  EXPECT_TRUE(testing::exercise_safetensors(bytes_of(content)));
}

TEST(Safetensors, RandomChangesNeverHarm) {
  const std::string good = good_file();
  std::mt19937_64 random(7);
  int accepted = 0;
  for (int round = 0; round < 5000; round++) {
    std::string content = good;
    for (std::size_t changes = 1 + random() % 3; changes > 0; changes--) {
      content[random() % content.size()] =
          random() % 2 == 0 ? good[random() % good.size()] : static_cast<char>(random());
    }
    if (testing::exercise_safetensors(bytes_of(content))) accepted++;
  }
  // Both outcomes must be common, or the changes would test nothing.
  EXPECT_GT(accepted, 200);
  EXPECT_LT(accepted, 4800);
}

TEST(Safetensors, ManyTensors) {
  SafetensorsWriter writer;
  const std::vector<float> value = {1};
  for (int i = 0; i < 50000; i++) {
    writer.add_f32("model.layers." + std::to_string(i) + ".weight", {1}, value);
  }
  const std::string content = writer.finish();
  const auto file = SafetensorsFile::parse(bytes_of(content));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->entries().size(), 50000u);
  EXPECT_EQ(file->find("model.layers.49999.weight"), &file->entries()[49999]);
}

}  // namespace
}  // namespace reprise
