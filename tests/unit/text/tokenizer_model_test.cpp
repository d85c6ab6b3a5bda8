// Token ids of the real models' tokenizers, read from their GGUF files, equal Hugging Face's
// (tools/goldens/make_tokenizer_goldens.py). The files' paths come from the environment.
#include <cstdint>
#include <cstdlib>
#include <malloc.h>

#include <gtest/gtest.h>

#include "golden.h"
#include "model/gguf.h"
#include "text/detokenizer.h"

namespace reprise::test {
namespace {

template <class T>
T value_or_end(Result<T> result) {
  if (!result) ADD_FAILURE() << result.error().message;
  return result.value_or(T{});
}

Vocabulary vocabulary_of(const GgufFile& file) {
  Vocabulary vocabulary;
  const auto text = [&](const char* key) {
    return std::string(value_or_end(file.text(key)).value_or(""));
  };
  const auto flag = [&](const char* key) {
    return value_or_end(file.boolean(key)).value_or(false);
  };
  const auto id = [&](const char* key) -> std::optional<TokenId> {
    const auto number = value_or_end(file.integer(key));
    return number ? std::optional(static_cast<TokenId>(*number)) : std::nullopt;
  };
  vocabulary.kind =
      text("tokenizer.ggml.model") == "llama" ? VocabularyKind::scores : VocabularyKind::merges;
  vocabulary.pre_tokenizer = text("tokenizer.ggml.pre");
  vocabulary.tokens = value_or_end(file.texts("tokenizer.ggml.tokens"));
  for (const std::int64_t type : value_or_end(file.integers("tokenizer.ggml.token_type"))) {
    vocabulary.types.push_back(static_cast<TokenType>(type));
  }
  if (vocabulary.kind == VocabularyKind::scores) {
    for (const double score : value_or_end(file.numbers("tokenizer.ggml.scores"))) {
      vocabulary.scores.push_back(static_cast<float>(score));
    }
  } else {
    vocabulary.merges = value_or_end(file.texts("tokenizer.ggml.merges"));
  }
  vocabulary.bos = id("tokenizer.ggml.bos_token_id");
  vocabulary.eos = id("tokenizer.ggml.eos_token_id");
  vocabulary.unknown = id("tokenizer.ggml.unknown_token_id");
  vocabulary.add_bos = flag("tokenizer.ggml.add_bos_token");
  vocabulary.add_space_prefix = flag("tokenizer.ggml.add_space_prefix");
  return vocabulary;
}

std::string detokenize(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

std::string with_plain_spaces(std::string text) {
  for (std::size_t at = text.find("▁"); at != std::string::npos; at = text.find("▁", at)) {
    text.replace(at, 3, " ");
  }
  return text;
}

// What malloc has handed out, exact to its own rounding; resident memory would also hold what was
// freed and what the page cache brings. A sanitizer has a heap of its own: the difference is 0.
std::int64_t heap_bytes() {
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<std::int64_t>(heap.uordblks + heap.hblkhd);
}

struct RealModel {
  const char* variable;  // of the environment
  const char* name;      // in the golden file
};

class TokenizerModel : public testing::TestWithParam<RealModel> {};

TEST_P(TokenizerModel, IdsEqualHuggingFaces) {
  const RealModel& model = GetParam();
  const char* path = std::getenv(model.variable);
  if (path == nullptr) GTEST_SKIP() << model.variable << " names no GGUF file";
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const Vocabulary vocabulary = vocabulary_of(*file);
  const std::int64_t heap_before = heap_bytes();
  const auto tokenizer = Tokenizer::from_vocabulary(vocabulary);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  const std::int64_t tokenizer_bytes = heap_bytes() - heap_before;
  RecordProperty("tokenizer_bytes", std::to_string(tokenizer_bytes));

  const JsonValue golden = read_golden("tokenizer_models.json");
  const auto strings = strings_of(golden.at("strings"));
  const JsonArray& expected = golden.at(model.name).as_array();
  ASSERT_GE(strings.size(), 500U);
  ASSERT_EQ(strings.size(), expected.size());
  for (std::size_t index = 0; index < strings.size(); ++index) {
    const auto ids = tokenizer->encode(strings[index], AddSpecial::no, ParseSpecial::yes);
    EXPECT_EQ(ids, ids_of(expected[index])) << "string " << index << ": " << strings[index];
    const auto plain = tokenizer->encode(strings[index], AddSpecial::no, ParseSpecial::no);
    ASSERT_TRUE(plain.has_value());
    const bool is_scores = vocabulary.kind == VocabularyKind::scores;  // there U+2581 is a space
    EXPECT_EQ(detokenize(*tokenizer, *plain),
              is_scores ? with_plain_spaces(strings[index]) : strings[index]);
  }
  const auto plain_strings = strings_of(golden.at("plain_strings"));
  const std::string plain_name = std::string(model.name) + "_plain";
  ASSERT_FALSE(plain_strings.empty());
  for (std::size_t index = 0; index < plain_strings.size(); ++index) {
    EXPECT_EQ(tokenizer->encode(plain_strings[index], AddSpecial::no, ParseSpecial::no),
              ids_of(golden.at(plain_name).at(index)))
        << "plain string " << index << ": " << plain_strings[index];
  }
  // The server's share of memory is the file's and 128 MB, all told.
  EXPECT_LE(tokenizer_bytes, std::int64_t{60} << 20);
}

TEST(GemmaTokenizer, PutsBosInFront) {
  const char* path = std::getenv("REPRISE_MODEL_GEMMA3");
  if (path == nullptr) GTEST_SKIP() << "REPRISE_MODEL_GEMMA3 names no GGUF file";
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const auto tokenizer = Tokenizer::from_vocabulary(vocabulary_of(*file));
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->encode("", AddSpecial::yes, ParseSpecial::no), (std::vector<TokenId>{2}));
  EXPECT_EQ(tokenizer->find("<end_of_turn>"), TokenId{106});
  EXPECT_TRUE(tokenizer->is_special(106));
  EXPECT_EQ(tokenizer->eos(), TokenId{1});
}

INSTANTIATE_TEST_SUITE_P(Real, TokenizerModel,
                         testing::Values(RealModel{"REPRISE_MODEL_GEMMA3", "gemma3"},
                                         RealModel{"REPRISE_MODEL_SMOLLM2", "smollm2"}),
                         [](const auto& model) { return std::string(model.param.name); });

}  // namespace
}  // namespace reprise::test
