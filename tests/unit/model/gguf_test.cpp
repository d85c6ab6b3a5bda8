// GGUF reader: good files are read exactly, hostile ones end in one line that names what is wrong.
#include "model/gguf.h"

#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "support/cpu_seconds.h"
#include "support/gguf_exercise.h"
#include "support/gguf_writer.h"

namespace reprise {
namespace {

using testing::GgufWriter;
using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kF32 = 0, kQ5_0 = 6, kIQ3_S = 21;
constexpr std::uint32_t kU64Value = 10, kF64Value = 12, kArrayValue = 9, kTextValue = 8;

Bytes bytes_of(std::initializer_list<std::uint64_t> words) {
  Bytes bytes(words.size() * 8);
  std::memcpy(bytes.data(), std::data(words), bytes.size());
  return bytes;
}

// An array header: item type, count, then `words` as items.
Bytes array_of(std::uint32_t item_type, std::uint64_t count, const Bytes& items = {}) {
  Bytes bytes(12);
  std::memcpy(bytes.data(), &item_type, 4);
  std::memcpy(bytes.data() + 4, &count, 8);
  bytes.insert(bytes.end(), items.begin(), items.end());
  return bytes;
}

// One of everything.
GgufWriter good_file() {
  GgufWriter writer;
  writer.add_text("general.architecture", "llama");
  writer.add_integer("llama.block_count", 30);
  writer.add_number("llama.rope.freq_base", 10000.5f);
  writer.add_bool("tokenizer.ggml.add_bos_token", true);
  writer.add_texts("tokenizer.ggml.tokens", {"a", "", "\xFF", "long token"});
  writer.add_numbers("tokenizer.ggml.scores", {-1.5f, 0.0f, 2.0f, 3.0f});
  writer.add_integers("tokenizer.ggml.token_type", {1, -2, 3, 6});
  writer.add_bools("llama.pattern", {true, false, true});
  writer.add_tensor("token_embd.weight", {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  writer.add_tensor("blk.0.attn_q.weight", {64, 2}, kQ5_0, Bytes(4 * 22, std::byte{7}));
  writer.add_tensor("blk.0.ffn_up.weight", {256}, kIQ3_S, Bytes(136));
  writer.add_tensor("output_norm.weight", {1}, std::vector<float>{9});
  return writer;
}

std::string error_of(const Bytes& bytes) {
  const auto file = GgufFile::parse(bytes);
  return file ? "no error" : file.error().message;
}

TEST(Gguf, ReadsAGoodFile) {
  for (const std::uint32_t version : {2u, 3u}) {
    const Bytes bytes = good_file().finish(version);
    const auto file = GgufFile::parse(bytes);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ(file->version(), static_cast<int>(version));
    ASSERT_EQ(file->metadata().size(), 8u);
    EXPECT_EQ(file->metadata()[1].first, "llama.block_count");
    EXPECT_EQ(file->text("general.architecture").value(), "llama");
    EXPECT_EQ(file->integer("llama.block_count").value(), 30);
    EXPECT_EQ(file->number("llama.block_count").value(), 30.0);
    EXPECT_EQ(file->number("llama.rope.freq_base").value(), 10000.5);
    EXPECT_EQ(file->boolean("tokenizer.ggml.add_bos_token").value(), true);
    const std::vector<std::string_view> tokens = {"a", "", "\xFF", "long token"};
    EXPECT_EQ(file->texts("tokenizer.ggml.tokens").value(), tokens);
    EXPECT_EQ(file->numbers("tokenizer.ggml.scores").value(), (std::vector<double>{-1.5, 0, 2, 3}));
    EXPECT_EQ(file->integers("tokenizer.ggml.token_type").value(),
              (std::vector<std::int64_t>{1, -2, 3, 6}));
    EXPECT_EQ(file->integers("llama.pattern").value(), (std::vector<std::int64_t>{1, 0, 1}));
    EXPECT_EQ(file->integers("llama.block_count").value(), (std::vector<std::int64_t>{30}));
  }
}

TEST(Gguf, PlacesTensors) {
  const Bytes bytes = good_file().finish();
  const auto file = GgufFile::parse(bytes);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 4u);
  const GgufTensor* embedding = file->find_tensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->type, kernels::WeightType::f32);
  EXPECT_EQ(embedding->dims, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(embedding->elements(), 6);
  EXPECT_EQ(embedding->offset % 32, 0u);
  EXPECT_EQ(embedding->bytes.data(), bytes.data() + embedding->offset);
  float values[6];
  ASSERT_EQ(embedding->bytes.size(), sizeof values);
  std::memcpy(values, embedding->bytes.data(), sizeof values);
  EXPECT_EQ(values[5], 6.0f);
  EXPECT_EQ(file->find_tensor("blk.0.attn_q.weight")->bytes.size(), 88u);
  EXPECT_EQ(file->find_tensor("blk.0.attn_q.weight")->bytes[87], std::byte{7});
  const GgufTensor* unsupported = file->find_tensor("blk.0.ffn_up.weight");
  EXPECT_FALSE(unsupported->type.has_value());
  EXPECT_TRUE(unsupported->bytes.empty());
  EXPECT_EQ(ggml_type_name(unsupported->type_id), "IQ3_S");
  EXPECT_EQ(ggml_type_name(777), "type 777");
  EXPECT_EQ(file->find_tensor("nothing"), nullptr);
}

TEST(Gguf, GettersTellAbsentFromWrong) {
  GgufWriter writer = good_file();
  writer.add_raw("above", kU64Value, bytes_of({UINT64_MAX}));
  writer.add_raw("below", kU64Value, bytes_of({INT64_MAX}));
  writer.add_numbers("scores", {1.0f, std::numeric_limits<float>::quiet_NaN()});
  writer.add_number("endless", std::numeric_limits<float>::infinity());
  const Bytes bytes = writer.finish();
  const auto file = GgufFile::parse(bytes);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->integer("none").value(), std::nullopt);
  EXPECT_EQ(file->number("none").value(), std::nullopt);
  EXPECT_EQ(file->boolean("none").value(), std::nullopt);
  EXPECT_EQ(file->text("none").value(), std::nullopt);
  EXPECT_TRUE(file->integers("none").value().empty());
  EXPECT_TRUE(file->numbers("none").value().empty());
  EXPECT_TRUE(file->texts("none").value().empty());
  EXPECT_EQ(file->integer("below").value(), INT64_MAX);
  const auto message = [](const auto& result) {
    return result ? std::string("no error") : result.error().message;
  };
  EXPECT_EQ(message(file->integer("above")),
            "metadata key 'above': an integer above 2^63, expected an integer");
  EXPECT_EQ(message(file->integer("general.architecture")),
            "metadata key 'general.architecture': a text, expected an integer");
  EXPECT_EQ(message(file->text("llama.block_count")),
            "metadata key 'llama.block_count': an integer, expected a text");
  EXPECT_EQ(message(file->boolean("llama.block_count")),
            "metadata key 'llama.block_count': an integer, expected a bool");
  EXPECT_EQ(message(file->number("llama.pattern")),
            "metadata key 'llama.pattern': an array of integers, expected a number");
  EXPECT_EQ(message(file->number("endless")),
            "metadata key 'endless': inf, expected a finite number");
  EXPECT_EQ(message(file->numbers("scores")),
            "metadata key 'scores': item 1 is NaN, expected a number");
  EXPECT_EQ(message(file->texts("tokenizer.ggml.scores")),
            "metadata key 'tokenizer.ggml.scores': an array of numbers, expected an array of "
            "texts");
}

struct Hostile {
  const char* what;
  std::function<Bytes()> make;
  Errc code;
  std::vector<const char*> expected;  // parts of the message
};

Bytes with(const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer = good_file();
  change(writer);
  return writer.finish();
}

Bytes with_metadata(const char* key, std::uint32_t type_id, const Bytes& value) {
  return with([&](GgufWriter& w) { w.add_raw(key, type_id, value); });
}

Bytes with_tensor(const char* name, const std::vector<std::int64_t>& dims, std::uint32_t type_id,
                  std::uint64_t offset) {
  return with([&](GgufWriter& w) { w.add_tensor_at(name, dims, type_id, offset); });
}

constexpr std::int64_t kHuge = std::int64_t{1} << 60;

std::vector<Hostile> hostile_preambles() {
  return {
      {"empty", [] { return Bytes{}; }, Errc::corrupt, {"not a GGUF file"}},
      {"other magic",
       [] {
         auto b = good_file().finish();
         b[0] = std::byte{'X'};
         return b;
       },
       Errc::corrupt,
       {"XGUF", "GGUF"}},
      {"version 1", [] { return good_file().finish(1); }, Errc::unsupported, {"version 1"}},
      {"version 4",
       [] { return good_file().finish(4); },
       Errc::unsupported,
       {"version 4", "2 or 3"}},
      {"big-endian",
       [] { return good_file().finish(0x03000000); },
       Errc::unsupported,
       {"big-endian"}},
      {"2^60 keys",
       [] { return good_file().finish(3, 4, 1ull << 60); },
       Errc::corrupt,
       {"key count 1152921504606846976", "at most"}},
      {"2^60 tensors",
       [] { return good_file().finish(3, 1ull << 60, 8); },
       Errc::corrupt,
       {"tensor count 1152921504606846976", "at most"}},
      {"a tensor too many",
       [] { return good_file().finish(3, 5, 8); },
       Errc::corrupt,
       {"tensor 4"}},
      {"a key too many",
       [] { return good_file().finish(3, 4, 9); },
       Errc::corrupt,
       {"tensor 0"}},  // the first tensor's name was taken for a key
  };
}

std::vector<Hostile> hostile_metadata() {
  return {
      {"key twice",
       [] { return with([](auto& w) { w.add_integer("llama.block_count", 1); }); },
       Errc::corrupt,
       {"'llama.block_count'", "twice"}},
      {"empty key",
       [] { return with([](auto& w) { w.add_integer("", 1); }); },
       Errc::corrupt,
       {"metadata key 8", "0 bytes long", "1..65535"}},
      {"long key",
       [] { return with([](auto& w) { w.add_integer(std::string(65536, 'k'), 1); }); },
       Errc::corrupt,
       {"65536 bytes long", "65535"}},
      {"key not UTF-8",
       [] { return with([](auto& w) { w.add_integer("k\xC3(", 1); }); },
       Errc::corrupt,
       {"k\\xc3(", "not UTF-8"}},
      {"surrogate",
       [] { return with([](auto& w) { w.add_integer("\xED\xA0\x80", 1); }); },
       Errc::corrupt,
       {"not UTF-8"}},
      {"overlong",
       [] { return with([](auto& w) { w.add_integer("\xC0\x80", 1); }); },
       Errc::corrupt,
       {"not UTF-8"}},
      {"value type 13",
       [] { return with_metadata("odd", 13, {}); },
       Errc::unsupported,
       {"'odd'", "value type 13", "0..12"}},
      {"bool 2",
       [] { return with_metadata("odd", 7, {std::byte{2}}); },
       Errc::corrupt,
       {"'odd'", "bool of 2"}},
      {"bool 2 in array",
       [] { return with_metadata("odd", kArrayValue, array_of(7, 1, {std::byte{2}})); },
       Errc::corrupt,
       {"'odd'", "item 0", "bool of 2"}},
      {"text too long",
       [] { return with_metadata("odd", kTextValue, bytes_of({1ull << 60})); },
       Errc::corrupt,
       {"'odd'", "1152921504606846976 bytes wanted", "left"}},
      {"array of arrays",
       [] { return with_metadata("odd", kArrayValue, array_of(9, 1)); },
       Errc::unsupported,
       {"'odd'", "1 arrays"}},
      {"array of type 13",
       [] { return with_metadata("odd", kArrayValue, array_of(13, 1)); },
       Errc::unsupported,
       {"'odd'", "13", "0..12"}},
      {"2^60 numbers",
       [] { return with_metadata("odd", kArrayValue, array_of(6, 1ull << 60)); },
       Errc::corrupt,
       {"'odd'", "1152921504606846976 items", "left"}},
      {"2^61 doubles",
       [] { return with_metadata("odd", kArrayValue, array_of(kF64Value, 1ull << 61)); },
       Errc::corrupt,
       {"'odd'", "2305843009213693952 items of at least 8 bytes"}},
      {"2^60 texts",
       [] { return with_metadata("odd", kArrayValue, array_of(8, 1ull << 60)); },
       Errc::corrupt,
       {"'odd'", "1152921504606846976 items"}},
      {"text in array too long",
       [] { return with_metadata("odd", kArrayValue, array_of(8, 1, bytes_of({99999}))); },
       Errc::corrupt,
       {"'odd'", "item 0 of 1", "99999 bytes wanted"}},
      {"u64 item above int64",
       [] {
         return with_metadata("odd", kArrayValue, array_of(kU64Value, 1, bytes_of({UINT64_MAX})));
       },
       Errc::unsupported,
       {"'odd'", "18446744073709551615"}},
      {"alignment 24",
       [] { return with([](auto& w) { w.add_integer("general.alignment", 24); }); },
       Errc::corrupt,
       {"'general.alignment'", "24", "power of two"}},
      {"alignment 0",
       [] { return with([](auto& w) { w.add_integer("general.alignment", 0); }); },
       Errc::corrupt,
       {"'general.alignment'", "power of two"}},
      {"alignment text",
       [] { return with([](auto& w) { w.add_text("general.alignment", "3"); }); },
       Errc::corrupt,
       {"'general.alignment'", "a text"}},
      {"alignment 2^62",
       [] { return with_metadata("general.alignment", kU64Value, bytes_of({1ull << 62})); },
       Errc::corrupt,
       {"token_embd.weight", "0 bytes of data"}},
  };
}

std::vector<Hostile> hostile_tensors() {
  return {
      {"tensor twice",
       [] { return with_tensor("output_norm.weight", {1}, kF32, 0); },
       Errc::corrupt,
       {"tensor 'output_norm.weight'", "twice"}},
      {"empty name",
       [] { return with_tensor("", {1}, kF32, 0); },
       Errc::corrupt,
       {"tensor 4", "0 bytes long"}},
      {"name not UTF-8",
       [] { return with_tensor("\x80", {1}, kF32, 0); },
       Errc::corrupt,
       {"tensor 4", "\\x80", "not UTF-8"}},
      {"name with a line break",
       [] { return with_tensor("a\nb", {}, kF32, 0); },
       Errc::corrupt,
       {"tensor 'a\\x0ab'"}},
      {"no dimensions",
       [] { return with_tensor("odd", {}, kF32, 0); },
       Errc::corrupt,
       {"'odd'", "0 dimensions", "1..4"}},
      {"five dimensions",
       [] { return with_tensor("odd", {1, 1, 1, 1, 1}, kF32, 0); },
       Errc::corrupt,
       {"'odd'", "5 dimensions", "1..4"}},
      {"dimension 0",
       [] { return with_tensor("odd", {4, 0}, kF32, 0); },
       Errc::corrupt,
       {"'odd'", "dimension 1 is 0"}},
      {"negative dimension",
       [] { return with_tensor("odd", {-4}, kF32, 0); },
       Errc::corrupt,
       {"'odd'", "2^63"}},
      {"product overflow",
       [] { return with_tensor("odd", {kHuge, 16}, kF32, 0); },
       Errc::corrupt,
       {"'odd'", "1152921504606846976 times 16"}},
      {"product wraps to 1",
       [] { return with_tensor("odd", {kHuge, kHuge, 1 << 8}, kF32, 0); },
       Errc::corrupt,
       {"'odd'", "times"}},
      {"bytes overflow",
       [] { return with_tensor("odd", {4 * kHuge + 1}, kF32, 0); },
       Errc::corrupt,
       {"'odd'", "4611686018427387905 blocks of 4 bytes"}},
      {"half a block",
       [] { return with_tensor("odd", {48, 2}, kQ5_0, 0); },
       Errc::corrupt,
       {"'odd'", "48", "multiple of 32", "Q5_0"}},
      {"odd offset",
       [] { return with_tensor("odd", {1}, kF32, 33); },
       Errc::corrupt,
       {"'odd'", "offset 33", "32"}},
      {"past the end",
       [] { return with_tensor("odd", {1}, kF32, 1 << 20); },
       Errc::corrupt,
       {"'odd'", "4 bytes at offset 1048576", "320 bytes of data"}},
      {"offset + size wraps",
       [] { return with_tensor("odd", {8}, kF32, ~31ull); },
       Errc::corrupt,
       {"'odd'", "offset 18446744073709551584"}},
      {"longer than the file",
       [] { return with_tensor("odd", {1000}, kF32, 0); },
       Errc::corrupt,
       {"'odd'", "4000 bytes", "320 bytes of data"}},
      {"unsupported past the end",
       [] { return with_tensor("odd", {256}, kIQ3_S, 1 << 20); },
       Errc::corrupt,
       {"'odd'", "offset 1048576"}},
      {"same place",
       [] { return with_tensor("odd", {1}, kF32, 0); },
       Errc::corrupt,
       {"'token_embd.weight'", "'odd'", "inside"}},
      {"inside another",
       [] { return with_tensor("odd", {1}, kF32, 64); },
       Errc::corrupt,
       {"'odd'", "inside tensor 'blk.0.attn_q.weight'"}},
      {"unsupported inside another",
       [] { return with_tensor("odd", {256}, kIQ3_S, 64); },
       Errc::corrupt,
       {"'odd'", "inside tensor 'blk.0.attn_q.weight'"}},
  };
}

void expect_refused(const std::vector<Hostile>& table) {
  for (const Hostile& hostile : table) {
    SCOPED_TRACE(hostile.what);
    const Bytes bytes = hostile.make();
    const auto file = GgufFile::parse(bytes);
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().code, hostile.code) << file.error().message;
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
    for (const char* part : hostile.expected) {
      EXPECT_NE(file.error().message.find(part), std::string::npos)
          << "wanted: " << part << "\n   got: " << file.error().message;
    }
  }
}

TEST(Gguf, RefusesHostilePreambles) {
  expect_refused(hostile_preambles());
}
TEST(Gguf, RefusesHostileMetadata) {
  expect_refused(hostile_metadata());
}
TEST(Gguf, RefusesHostileTensors) {
  expect_refused(hostile_tensors());
}

TEST(Gguf, AFileCutAnywhereIsRefused) {
  const GgufWriter writer = good_file();
  const Bytes good = writer.finish();
  for (std::size_t size = 0; size < good.size(); size++) {
    // An exact copy, so that AddressSanitizer sees a read past its end.
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    testing::exercise_gguf(cut);
    if (size < writer.header_bytes()) {
      EXPECT_NE(error_of(cut), "no error") << size;
    }
  }
  // The last tensor's padding may be missing, its four bytes may not.
  const auto end = static_cast<std::ptrdiff_t>(good.size()) - 28;
  EXPECT_EQ(error_of(Bytes(good.begin(), good.begin() + end)), "no error");
  EXPECT_NE(error_of(Bytes(good.begin(), good.begin() + end - 1)).find("output_norm.weight"),
            std::string::npos);
}

TEST(Gguf, RandomMutationsNeverBreakAPromise) {
  const GgufWriter writer = good_file();
  const Bytes good = writer.finish();
  std::mt19937_64 random(20260801);
  int accepted = 0;
  for (int round = 0; round < 20000; round++) {
    Bytes bytes = good;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int change = 0; change < changes; change++) {
      const std::size_t at = random() % writer.header_bytes();
      switch (random() % 4) {
        case 0:
          bytes[at] ^= static_cast<std::byte>(1u << (random() % 8));
          break;
        case 1:
          bytes[at] = static_cast<std::byte>(random());
          break;
        case 2:
          bytes[at] = std::byte{0xFF};
          break;
        default:
          bytes[at] = bytes[random() % bytes.size()];
          break;
      }
    }
    testing::exercise_gguf(bytes);
    if (GgufFile::parse(bytes)) accepted++;
  }
  // Both outcomes must be common, or the mutations would test nothing.
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 19000);
}

TEST(Gguf, LargeArraysAreViews) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  for (int i = 0; i < 262144; i++) {
    tokens.push_back("token" + std::to_string(i));
    scores.push_back(-static_cast<float>(i));
  }
  GgufWriter writer;
  writer.add_texts("tokenizer.ggml.tokens", tokens);
  writer.add_numbers("tokenizer.ggml.scores", scores);
  const Bytes bytes = writer.finish();
  const double begin = cpu_seconds();
  const auto file = GgufFile::parse(bytes);
  const double took = cpu_seconds() - begin;
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_LT(took, 1.0);  // 10 ms in a release build on one core
  const auto views = file->texts("tokenizer.ggml.tokens").value();
  ASSERT_EQ(views.size(), 262144u);
  EXPECT_EQ(views[262143], "token262143");
  EXPECT_TRUE(testing::lies_within(bytes, views[262143].data(), views[262143].size()));
  EXPECT_EQ(file->numbers("tokenizer.ggml.scores").value()[262143], -262143.0);
}

TEST(Gguf, OpensMappedFilesAndNamesThem) {
  const auto folder =
      std::filesystem::path(::testing::TempDir()) / ("gguf_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const Bytes bytes = good_file().finish();
  const auto write = [&](const char* name, std::size_t size) {
    const std::string_view content(reinterpret_cast<const char*>(bytes.data()), size);
    EXPECT_TRUE(write_file_atomic(folder / name, content).has_value());
    return folder / name;
  };
  auto opened = GgufFile::open(write("good.gguf", bytes.size()));
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const GgufFile file = std::move(opened).value();  // views survive the move
  const GgufTensor* tensor = file.find_tensor("blk.0.attn_q.weight");
  ASSERT_NE(tensor, nullptr);
  file.file()->release(tensor->offset, tensor->bytes.size());
  EXPECT_EQ(tensor->bytes[87], std::byte{7});  // released pages come back from the file

  const auto cut = GgufFile::open(write("cut.gguf", 40));
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().code, Errc::corrupt);
  EXPECT_NE(cut.error().message.find("cut.gguf: "), std::string::npos);
  const auto none = GgufFile::open(folder / "none.gguf");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Errc::not_found);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace reprise
