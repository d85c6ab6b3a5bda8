// The tiny vocabulary, spelt for GGUF and for Hugging Face's tokenizers library.
#include "support/tiny_vocabulary.h"

#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/json.h"

namespace reprise::testing {
namespace {

constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkjqxz";
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

// The n-th pair of letters, of those that are tokens.
std::pair<char, char> letter_pair(std::size_t n) {
  return {kLetters[n % 7], kLetters[n / 7 + 1]};
}

constexpr std::size_t kFirstPair = kTinyFirstByte + 256 + 1 + kLetters.size();

JsonObject added_token(TokenId id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

TinyVocabulary tiny_vocabulary() {
  TinyVocabulary result;
  result.tokens = {"<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"};
  result.types = {3, 3, 3, 2, 3, 3};
  for (int byte = 0; byte < 256; byte++) {
    result.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    result.types.push_back(6);
  }
  result.tokens.emplace_back(kSpaceMark);
  for (const char letter : kLetters) result.tokens.emplace_back(1, letter);
  CHECK(result.tokens.size() == kFirstPair);
  for (std::size_t n = 0; result.tokens.size() < kTinyVocabulary; n++) {
    const auto [first, second] = letter_pair(n);
    result.tokens.push_back({first, second});
  }
  result.types.resize(result.tokens.size(), 1);
  return result;
}

void add_tiny_vocabulary(GgufWriter& writer) {
  const TinyVocabulary vocabulary = tiny_vocabulary();
  std::vector<float> scores;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); id++) {
    scores.push_back(-static_cast<float>(id));
  }
  writer.add_text("tokenizer.ggml.model", "llama");
  writer.add_texts("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.add_numbers("tokenizer.ggml.scores", scores);
  writer.add_integers("tokenizer.ggml.token_type", vocabulary.types);
  writer.add_integer("tokenizer.ggml.bos_token_id", kTinyBos);
  writer.add_integer("tokenizer.ggml.eos_token_id", kTinyEos);
  writer.add_integer("tokenizer.ggml.unknown_token_id", kTinyUnknown);
  writer.add_bool("tokenizer.ggml.add_bos_token", true);
  writer.add_bool("tokenizer.ggml.add_space_prefix", false);
}

std::string tiny_tokenizer_json() {
  const TinyVocabulary vocabulary = tiny_vocabulary();
  JsonObject ids;
  JsonArray added, merges;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); id++) {
    const std::string& token = vocabulary.tokens[id];
    ids[token] = id;
    if (vocabulary.types[id] == 2 || vocabulary.types[id] == 3) {
      added.emplace_back(added_token(static_cast<TokenId>(id), token));
    }
    if (id >= kFirstPair) {
      merges.emplace_back(JsonArray{token.substr(0, 1), token.substr(1)});
    }
  }
  const JsonObject bos = {{"SpecialToken", {{"id", "<bos>"}, {"type_id", 0}}}};
  const JsonObject text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const JsonObject second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  const std::string mark(kSpaceMark);
  const JsonObject space_to_mark = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}};
  const JsonObject mark_to_space = {
      {"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}};
  JsonObject file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", space_to_mark},
      {"pre_tokenizer", nullptr},
      {"post_processor",
       JsonObject{{"type", "TemplateProcessing"},
                  {"single", JsonArray{bos, text}},
                  {"pair", JsonArray{bos, text, bos, second}},
                  {"special_tokens",
                   JsonObject{{"<bos>", JsonObject{{"id", "<bos>"},
                                                   {"ids", JsonArray{JsonValue(kTinyBos)}},
                                                   {"tokens", JsonArray{JsonValue("<bos>")}}}}}}}},
      {"decoder",
       JsonObject{{"type", "Sequence"},
                  {"decoders", JsonArray{mark_to_space, JsonObject{{"type", "ByteFallback"}},
                                         JsonObject{{"type", "Fuse"}}}}}},
  };
  file["model"] = JsonObject{{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", "<unk>"},
                             {"continuing_subword_prefix", nullptr},
                             {"end_of_word_suffix", nullptr},
                             {"fuse_unk", true},
                             {"byte_fallback", true},
                             {"ignore_merges", false},
                             {"vocab", ids},
                             {"merges", merges}};
  return to_json(file);
}

std::string tiny_tokenizer_config_json() {
  return to_json(JsonObject{{"tokenizer_class", "PreTrainedTokenizerFast"},
                            {"add_bos_token", true},
                            {"bos_token", "<bos>"},
                            {"eos_token", "<eos>"},
                            {"unk_token", "<unk>"},
                            {"pad_token", "<pad>"},
                            {"chat_template", kTinyChatTemplate}});
}

std::string tiny_generation_config_json() {
  return to_json(JsonObject{{"bos_token_id", kTinyBos},
                            {"eos_token_id", JsonArray{kTinyEos, kTinyEndOfTurn}}});
}

}  // namespace reprise::testing
