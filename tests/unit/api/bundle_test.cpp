// Model files as bundles: vocabulary keys, stop tokens, prompts and their history boundary.
#include "api/bundle.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "api/gguf_vocabulary.h"
#include "api_fixture.h"
#include "support/gguf_writer.h"

namespace reprise {
namespace {

using testing::ApiTest;
using testing::GgufWriter;
using testing::kTinyBos;
using testing::kTinyEndOfTurn;
using testing::kTinyEos;
using testing::TinyModelOptions;

class BundleTest : public ApiTest {};

TEST_F(BundleTest, StopTokensOfTheTinyGemma) {
  EXPECT_EQ(bundle->stop_ids(), (std::vector<TokenId>{kTinyEos, kTinyEndOfTurn}));
  EXPECT_TRUE(bundle->has_chat_template());
}

TEST_F(BundleTest, PromptsBeginWithOneBos) {
  const auto count_bos = [](const PreparedPrompt& prompt) {
    return std::ranges::count(prompt.ids, kTinyBos);
  };
  const Result<PreparedPrompt> text = bundle->prepare_text("abc");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->ids.front(), kTinyBos);
  EXPECT_EQ(count_bos(*text), 1);
  EXPECT_EQ(text->history_boundary, 0);
  EXPECT_EQ(count_bos(*bundle->prepare_text("<bos>abc")), 1);
  EXPECT_EQ(bundle->prepare_text("<bos>abc")->ids, text->ids);
  EXPECT_EQ(bundle->prepare_text("")->ids, (std::vector<TokenId>{kTinyBos}));
  const Result<PreparedPrompt> chat = bundle->prepare_chat({{"user", "abc"}});
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->ids.front(), kTinyBos);
  EXPECT_EQ(count_bos(*chat), 1);
}

// The next turn's prompt must begin with the tokens before the boundary, and the boundary must be
// the end of the last turn's marker.
void expect_boundary_holds(const Bundle& bundle) {
  const std::vector<ChatMessage> first = {{"user", "tell me of the sea"}};
  std::vector<ChatMessage> second = first;
  second.push_back({"assistant", "\nit is wet"});
  second.push_back({"user", "more"});
  const Result<PreparedPrompt> a = bundle.prepare_chat(first), b = bundle.prepare_chat(second);
  ASSERT_TRUE(a && b);
  const auto boundary = static_cast<std::size_t>(a->history_boundary);
  ASSERT_GT(boundary, 4u);
  ASSERT_LT(boundary, a->ids.size());
  EXPECT_EQ(a->ids[boundary - 1], kTinyEndOfTurn);
  EXPECT_TRUE(std::equal(a->ids.begin(), a->ids.begin() + static_cast<std::ptrdiff_t>(boundary),
                         b->ids.begin()));
  EXPECT_GT(b->history_boundary, a->history_boundary);
}

TEST_F(BundleTest, HistoryBoundary) {
  expect_boundary_holds(*bundle);
  TinyModelOptions llama;
  llama.family = "llama";
  start(llama, {}, {});
  expect_boundary_holds(*bundle);
}

// Of servers with equal fingerprints equal requests get equal replies.
TEST_F(BundleTest, FingerprintOfAllThatRepliesDependOn) {
  TinyModelOptions model;
  model.family = "llama";  // its file has a template
  start(model, {}, {});
  const std::string first = bundle->fingerprint(kernels::KvType::f16);
  EXPECT_EQ(first.size(), 32u);
  EXPECT_NE(bundle->fingerprint(kernels::KvType::int8), first);
  const std::string weights = bundle->model().fingerprint();
  const auto with = [&](std::string_view text, std::string_view other) {
    std::vector<std::byte> bytes = testing::tiny_gguf(model);
    if (!text.empty()) {
      const auto at = std::ranges::search(bytes, std::as_bytes(std::span(text)));
      EXPECT_FALSE(at.empty()) << text;
      if (at.empty()) return std::string();
      std::ranges::copy(std::as_bytes(std::span(other)), at.begin());
    }
    const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                       fmt::format("reprise_fingerprint_{}.gguf", ::getpid());
    EXPECT_TRUE(write_file_atomic(
        path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
    const Result<Bundle> loaded = Bundle::load(path, pool, {});
    std::filesystem::remove(path);
    EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message);
    if (!loaded) return std::string();
    EXPECT_EQ(loaded->model().fingerprint(), weights) << "a snapshot's; text is no part of it";
    return loaded->fingerprint(kernels::KvType::f16);
  };
  EXPECT_EQ(with("", ""), first);
  EXPECT_NE(with("{{ m.content }}", "{{ m['role'] }}"), first);
  EXPECT_NE(with("<start_of_turn>", "<start_of_TURN>"), first);
}

TEST_F(BundleTest, TemplateErrorsNameTheMessages) {
  const Result<PreparedPrompt> prompt = bundle->prepare_chat({{"assistant", "hi"}});
  ASSERT_FALSE(prompt);
  EXPECT_EQ(prompt.error().code, Errc::invalid_argument);
  EXPECT_EQ(prompt.error().field, "messages");
  EXPECT_NE(prompt.error().message.find("alternate"), std::string::npos) << prompt.error().message;
}

TEST_F(BundleTest, TextsThatCanNeverFitAreRefusedUnread) {
  const std::string text(4 << 20, 'a');
  const Result<PreparedPrompt> plain = bundle->prepare_text(text);
  ASSERT_FALSE(plain);
  EXPECT_EQ(plain.error().code, Errc::exhausted);
  EXPECT_EQ(plain.error().field, "prompt");
  EXPECT_NE(plain.error().message.find("4194304 bytes"), std::string::npos)
      << plain.error().message;
  const Result<PreparedPrompt> chat = bundle->prepare_chat({{"user", text}});
  ASSERT_FALSE(chat);
  EXPECT_EQ(chat.error().code, Errc::exhausted);
  EXPECT_EQ(chat.error().field, "messages");
}

TEST_F(BundleTest, MissingFile) {
  const Result<Bundle> loaded = Bundle::load("/nowhere/at/all.gguf", pool, {});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Errc::not_found);
}

// ---- keys of the file -------------------------------------------------------------------------

struct Keys {
  std::string model = "gpt2";
  std::vector<std::string> tokens = {"a", "b", "<|endoftext|>", "<|im_end|>", "<|end|>"};
  std::vector<std::int32_t> types = {1, 1, 3, 3, 3};
};

GgufWriter writer_of(const Keys& keys) {
  GgufWriter writer;
  writer.add_text("general.architecture", "llama");
  writer.add_text("tokenizer.ggml.model", keys.model);
  writer.add_texts("tokenizer.ggml.tokens", keys.tokens);
  writer.add_integers("tokenizer.ggml.token_type", keys.types);
  return writer;
}

struct ReadKeys {
  std::vector<std::byte> bytes;
  Result<Vocabulary> vocabulary = fail(Errc::io, "not read");
  Result<std::vector<TokenId>> stop_ids = fail(Errc::io, "not read");
};

void read(GgufWriter& writer, ReadKeys& into) {
  into.bytes = writer.finish();
  const Result<GgufFile> file = GgufFile::parse(into.bytes);
  ASSERT_TRUE(file) << file.error().message;
  into.vocabulary = read_vocabulary(*file);
  if (into.vocabulary) into.stop_ids = read_stop_ids(*file, *into.vocabulary);
}

TEST(GgufVocabulary, EndTokensByKeyAndText) {
  GgufWriter writer = writer_of({});
  writer.add_integer("tokenizer.ggml.eos_token_id", 3);
  ReadKeys keys;
  read(writer, keys);
  ASSERT_TRUE(keys.vocabulary) << keys.vocabulary.error().message;
  EXPECT_EQ(keys.vocabulary->kind, VocabularyKind::merges);
  EXPECT_EQ(keys.vocabulary->eos, 3);
  EXPECT_FALSE(keys.vocabulary->bos);
  EXPECT_FALSE(keys.vocabulary->add_bos);
  EXPECT_EQ(*keys.stop_ids, (std::vector<TokenId>{2, 3}));
}

TEST(GgufVocabulary, OnlyControlTokensEndAReply) {
  GgufWriter writer = writer_of({.types = {1, 1, 1, 4, 1}});
  ReadKeys keys;
  read(writer, keys);
  EXPECT_TRUE(keys.stop_ids->empty());
}

TEST(GgufVocabulary, EndOfMessageIsNoEndWhereReturnAndCallExist) {
  GgufWriter writer =
      writer_of({.tokens = {"a", "<|end|>", "<|return|>", "<|call|>"}, .types = {1, 3, 3, 3}});
  writer.add_integer("tokenizer.ggml.eos_token_id", 2);
  writer.add_integer("tokenizer.ggml.eot_token_id", 1);
  ReadKeys keys;
  read(writer, keys);
  EXPECT_EQ(*keys.stop_ids, (std::vector<TokenId>{2, 3}));
}

TEST(GgufVocabulary, DefaultsOfScoredVocabularies) {
  GgufWriter writer =
      writer_of({.model = "llama", .tokens = {"<unk>", "<s>", "</s>"}, .types = {2, 3, 3}});
  writer.add_numbers("tokenizer.ggml.scores", {0, 0, 0});
  ReadKeys keys;
  read(writer, keys);
  ASSERT_TRUE(keys.vocabulary);
  EXPECT_EQ(keys.vocabulary->bos, 1);
  EXPECT_EQ(keys.vocabulary->eos, 2);
  EXPECT_EQ(keys.vocabulary->unknown, 0);
  EXPECT_TRUE(keys.vocabulary->add_bos);
  EXPECT_TRUE(keys.vocabulary->add_space_prefix);
  EXPECT_EQ(*keys.stop_ids, (std::vector<TokenId>{2}));
}

TEST(GgufVocabulary, Refuses) {
  const auto error_of = [](GgufWriter writer) {
    ReadKeys keys;
    read(writer, keys);
    if (!keys.vocabulary) return keys.vocabulary.error().message;
    return keys.stop_ids ? std::string() : keys.stop_ids.error().message;
  };
  EXPECT_EQ(error_of(writer_of({.model = "rwkv"})),
            "tokenizer.ggml.model: got \"rwkv\", expected \"llama\" or \"gpt2\"");
  EXPECT_EQ(error_of(writer_of({.types = {1, 1}})),
            "tokenizer.ggml.token_type: got 2 entries, expected 5");
  EXPECT_EQ(error_of(writer_of({.types = {1, 1, 3, 3, 9}})),
            "tokenizer.ggml.token_type: got type 9, expected 1 to 6");
  GgufWriter eos = writer_of({});
  eos.add_integer("tokenizer.ggml.eos_token_id", 5);
  EXPECT_EQ(error_of(std::move(eos)), "tokenizer.ggml.eos_token_id: got 5, expected 0 to 4");
  GgufWriter eot = writer_of({});
  eot.add_integer("tokenizer.ggml.eot_token_id", 99);
  EXPECT_EQ(error_of(std::move(eot)), "tokenizer.ggml.eot_token_id: got 99, expected 0 to 4");
  GgufWriter empty;
  empty.add_text("general.architecture", "llama");
  EXPECT_NE(error_of(std::move(empty)).find("tokenizer.ggml.tokens"), std::string::npos);
}

// No tensor of the file is there: what the vocabulary lacks is told before anything is packed.
TEST(GgufVocabulary, UnknownSplitRulesAreToldBeforeTheWeights) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("reprise_bundle_test_" + std::to_string(::getpid()) + ".gguf");
  ThreadPool pool(1);
  const auto error_of = [&](const char* pre) {
    GgufWriter writer = writer_of({});
    writer.add_texts("tokenizer.ggml.merges", {"a b"});
    writer.add_text("tokenizer.ggml.pre", pre);
    const std::vector<std::byte> bytes = writer.finish();
    EXPECT_TRUE(write_file_atomic(
        path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
    const Result<Bundle> loaded = Bundle::load(path, pool, {});
    std::filesystem::remove(path);
    EXPECT_FALSE(loaded.has_value());
    return loaded ? Error{} : loaded.error();
  };
  const Error unknown = error_of("tekken");
  EXPECT_EQ(unknown.code, Errc::unsupported);
  EXPECT_EQ(unknown.field, "tokenizer.ggml.pre");
  EXPECT_TRUE(unknown.message.starts_with("tokenizer.ggml.pre: pre-tokenizer 'tekken', expected"))
      << unknown.message;
  for (const char* known : {"default", "gpt-2", "llama-bpe", "qwen2", "smollm"}) {
    const Error error = error_of(known);  // the model's own, and the tokenizer's thread ends
    EXPECT_NE(error.field, "tokenizer.ggml.pre") << error.message;
  }
}

}  // namespace
}  // namespace reprise
