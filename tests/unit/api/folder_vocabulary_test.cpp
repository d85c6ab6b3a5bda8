// What model folders say about text, file by file, and folders that lie.
#include "api/folder_vocabulary.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/file.h"

namespace reprise::test {
namespace {

// Letters, three special tokens, a hole at 8.
constexpr std::string_view kTokenizer = R"({
  "version": "1.0",
  "added_tokens": [
    {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 1, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 2, "content": "<|eom|>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 9, "content": "<|eot|>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true}],
  "normalizer": null, "pre_tokenizer": null, "decoder": {"type": "Fuse"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
  "model": {"type": "BPE", "vocab": {"<s>": 0, "</s>": 1, "<|eom|>": 2, "a": 3, "b": 4, "c": 5,
                                     "d": 6, "e": 7}, "merges": []}})";

class FolderVocabulary : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    write("tokenizer.json", kTokenizer);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(std::string_view name, std::string_view content) {
    ASSERT_TRUE(write_file_atomic(folder_ / name, content).has_value());
  }
  FolderText read(std::string_view config = "{}", std::string_view family = "llama") {
    auto text = read_folder_text(folder_, parse_json(config)->as_object(), family);
    EXPECT_TRUE(text.has_value()) << text.error().message;
    return std::move(*text);
  }
  std::string error_of(std::string_view config = "{}") {
    const auto text = read_folder_text(folder_, parse_json(config)->as_object(), "llama");
    EXPECT_FALSE(text.has_value());
    if (text) return {};
    EXPECT_EQ(text.error().message.find('\n'), std::string::npos);
    return text.error().message;
  }

  std::filesystem::path folder_;
};

TEST_F(FolderVocabulary, OnlyATokenizer) {
  const FolderText text = read();
  EXPECT_EQ(text.tokenizer.size(), 10U);
  EXPECT_EQ(text.tokenizer.bos(), std::nullopt);
  EXPECT_EQ(text.chat_template, "");
  EXPECT_TRUE(text.stop_ids.empty());
  EXPECT_EQ(text.suppressed_ids, (std::vector<TokenId>{8}));  // the hole
  EXPECT_FALSE(text.add_bos);                                 // no token is named bos
}

TEST_F(FolderVocabulary, WithoutTokenizerJson) {
  std::filesystem::remove(folder_ / "tokenizer.json");
  EXPECT_NE(error_of().find("no tokenizer.json; it is required"), std::string::npos);
  EXPECT_EQ(error_of().find("tokenizer.model"), std::string::npos);
  write("tokenizer.model", "x");
  EXPECT_NE(error_of().find("tokenizer.model alone is not enough"), std::string::npos);
}

TEST_F(FolderVocabulary, NamesComeFromTheConfigThenFromTheMap) {
  write("tokenizer_config.json", R"({"bos_token": {"content": "<s>", "lstrip": false}})");
  write("special_tokens_map.json", R"({"bos_token": "<|eot|>", "eos_token": "</s>"})");
  const FolderText text = read();
  EXPECT_EQ(text.tokenizer.bos(), TokenId{0});
  EXPECT_EQ(text.tokenizer.eos(), TokenId{1});
  EXPECT_EQ(text.stop_ids, (std::vector<TokenId>{1}));
  EXPECT_TRUE(text.add_bos);  // by the post-processor
}

TEST_F(FolderVocabulary, AddBosTokenDecides) {
  write("tokenizer_config.json", R"({"bos_token": "<s>", "add_bos_token": false})");
  EXPECT_FALSE(read().add_bos);
  write("tokenizer_config.json", R"({"bos_token": "</s>", "add_bos_token": true})");
  EXPECT_TRUE(read().add_bos);
  write("tokenizer_config.json", R"({"bos_token": "</s>"})");  // the post-processor adds another
  EXPECT_FALSE(read().add_bos);
  write("tokenizer_config.json", R"({"bos_token": null, "add_bos_token": true})");
  EXPECT_FALSE(read().add_bos);
}

TEST_F(FolderVocabulary, StopsComeFromTheFirstFileThatHasThem) {
  write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ(read(R"({"text_config": {"eos_token_id": 9}})").stop_ids, (std::vector<TokenId>{1, 9}));
  EXPECT_EQ(read(R"({"eos_token_id": [5, 3, 5], "text_config": {"eos_token_id": 9}})").stop_ids,
            (std::vector<TokenId>{1, 3, 5}));
  EXPECT_EQ(read(R"({"eos_token_id": null, "text_config": {"eos_token_id": 9}})").stop_ids,
            (std::vector<TokenId>{1, 9}));
  write("generation_config.json", R"({"eos_token_id": [9, 4], "suppress_tokens": [7, 6]})");
  const FolderText text = read(R"({"eos_token_id": 5})");
  EXPECT_EQ(text.stop_ids, (std::vector<TokenId>{1, 4, 9}));
  EXPECT_EQ(text.suppressed_ids, (std::vector<TokenId>{6, 7, 8}));
  write("generation_config.json", R"({"eos_token_id": [9, 1000000], "suppress_tokens": null})");
  EXPECT_EQ(read().stop_ids, (std::vector<TokenId>{1, 9}));
}

TEST_F(FolderVocabulary, MuseNeverStopsAtTheEndOfAMessage) {
  write("tokenizer_config.json", R"({"eos_token": "<|eom|>"})");
  write("generation_config.json", R"({"eos_token_id": [1, 2, 9]})");
  EXPECT_EQ(read("{}", "muse_glimmer").stop_ids, (std::vector<TokenId>{1, 9}));
  EXPECT_EQ(read("{}", "llama4").stop_ids, (std::vector<TokenId>{1, 2, 9}));
}

TEST_F(FolderVocabulary, TemplatesByPrecedence) {
  EXPECT_NE(read("{}", "gemma3").chat_template.find("<start_of_turn>"), std::string::npos);
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                                       {"name": "default", "template": "d"}]})");
  EXPECT_EQ(read("{}", "gemma3").chat_template, "d");
  write("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(read().chat_template, "one");
  write("chat_template.json", R"({"chat_template": "two"})");
  EXPECT_EQ(read().chat_template, "two");
  write("chat_template.jinja", "three\n");
  EXPECT_EQ(read().chat_template, "three\n");
}

TEST_F(FolderVocabulary, FilesThatLie) {
  const auto expect_error = [&](std::string_view file, std::string_view content,
                                std::string_view message) {
    const std::string before =
        file == "tokenizer.json" ? std::string(kTokenizer) : std::string("{}");
    write(file, content);
    const std::string error = error_of();
    EXPECT_NE(error.find(message), std::string::npos) << file << ": " << error;
    write(file, before);
  };
  expect_error("tokenizer.json", kTokenizer.substr(0, 500), "tokenizer.json: ");
  expect_error("tokenizer.json", "", "tokenizer.json: ");
  expect_error("tokenizer_config.json", "{", "tokenizer_config.json: ");
  expect_error("tokenizer_config.json", "[]", "tokenizer_config.json: expected an object");
  expect_error("tokenizer_config.json", R"({"bos_token": 3})",
               "tokenizer_config.json: bos_token: expected a text");
  expect_error("tokenizer_config.json", R"({"eos_token": "<none>"})",
               "eos_token: tokenizer.json has no token \"<none>\"");
  expect_error("tokenizer_config.json", R"({"bos_token": "<s>", "add_bos_token": 1})",
               "tokenizer_config.json: add_bos_token: got 1");
  expect_error("tokenizer_config.json", R"({"chat_template": 3})",
               "chat_template: expected a text");
  expect_error("tokenizer_config.json", R"({"chat_template": [3]})", "expected a text or a list");
  expect_error("special_tokens_map.json", R"({"eos_token": []})",
               "special_tokens_map.json: eos_token: expected a text");
  expect_error("chat_template.json", R"({"chat_template": {}})", "chat_template.json: ");
  expect_error("generation_config.json", R"({"eos_token_id": "1"})",
               "generation_config.json: eos_token_id: got \"1\"");
  expect_error("generation_config.json", R"({"eos_token_id": [1, -1]})", "got -1");
  expect_error("generation_config.json", R"({"suppress_tokens": [1.5]})", "suppress_tokens: got");
  EXPECT_NE(error_of(R"({"eos_token_id": {}})").find("config.json: eos_token_id"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise::test
