// GGUF tokenizer metadata. Source: ggml's docs/gguf.md and llama.cpp's defaults for absent keys.
#include "api/gguf_vocabulary.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/core.h>

namespace reprise {
namespace {

std::string key_of(std::string_view name) {
  return "tokenizer.ggml." + std::string(name);
}

// A token id, checked against the number of tokens.
Result<std::optional<TokenId>> token_key(const GgufFile& file, std::string_view name,
                                         std::size_t tokens) {
  const std::string key = key_of(name);
  TRY_ASSIGN(const std::optional<std::int64_t> id, file.integer(key));
  if (!id) return std::nullopt;
  // Writers spell "none" as -1 or as its 32-bit pattern.
  if (*id == -1 || *id == 0xFFFFFFFF) return std::nullopt;
  if (*id < 0 || *id >= static_cast<std::int64_t>(tokens)) {
    return fail(Errc::corrupt, fmt::format("{}: got {}, expected 0 to {}", key, *id, tokens - 1),
                key);
  }
  return static_cast<TokenId>(*id);
}

Result<std::optional<TokenId>> token_key_or(const GgufFile& file, std::string_view name,
                                            std::size_t tokens, TokenId fallback) {
  const std::string key = key_of(name);
  if (file.find(key)) return token_key(file, name, tokens);
  if (static_cast<std::size_t>(fallback) >= tokens) return std::nullopt;
  return fallback;
}

Status read_types(const GgufFile& file, Vocabulary& vocabulary) {
  const std::string key = key_of("token_type");
  if (!file.find(key)) {
    vocabulary.types.assign(vocabulary.tokens.size(), TokenType::normal);
    return {};
  }
  TRY_ASSIGN(const std::vector<std::int64_t> types, file.integers(key));
  if (types.size() != vocabulary.tokens.size()) {
    return fail(
        Errc::corrupt,
        fmt::format("{}: got {} entries, expected {}", key, types.size(), vocabulary.tokens.size()),
        key);
  }
  for (const std::int64_t type : types) {
    if (type < 1 || type > 6) {
      return fail(Errc::corrupt, fmt::format("{}: got type {}, expected 1 to 6", key, type), key);
    }
    vocabulary.types.push_back(static_cast<TokenType>(type));
  }
  return {};
}

// Kind, and what only that kind has.
Status read_kind(const GgufFile& file, Vocabulary& vocabulary) {
  const std::string key = key_of("model");
  TRY_ASSIGN(const std::optional<std::string_view> model, file.text(key));
  if (!model) return fail(Errc::not_found, key + ": the file has no tokenizer", key);
  if (*model == "llama") {
    vocabulary.kind = VocabularyKind::scores;
    TRY_ASSIGN(const std::vector<double> scores, file.numbers(key_of("scores")));
    for (const double score : scores) vocabulary.scores.push_back(static_cast<float>(score));
    return {};
  }
  if (*model != "gpt2") {
    return fail(Errc::unsupported,
                fmt::format("{}: got \"{}\", expected \"llama\" or \"gpt2\"", key, *model), key);
  }
  vocabulary.kind = VocabularyKind::merges;
  TRY_ASSIGN(vocabulary.merges, file.texts(key_of("merges")));
  TRY_ASSIGN(const std::optional<std::string_view> pre, file.text(key_of("pre")));
  vocabulary.pre_tokenizer = std::string(pre.value_or("default"));
  return {};
}

Status read_special_tokens(const GgufFile& file, Vocabulary& vocabulary) {
  const std::size_t tokens = vocabulary.tokens.size();
  if (vocabulary.kind == VocabularyKind::scores) {
    TRY_ASSIGN(vocabulary.bos, token_key_or(file, "bos_token_id", tokens, 1));
    TRY_ASSIGN(vocabulary.eos, token_key_or(file, "eos_token_id", tokens, 2));
    TRY_ASSIGN(vocabulary.unknown, token_key_or(file, "unknown_token_id", tokens, 0));
  } else {
    TRY_ASSIGN(vocabulary.bos, token_key(file, "bos_token_id", tokens));
    TRY_ASSIGN(vocabulary.eos, token_key(file, "eos_token_id", tokens));
    TRY_ASSIGN(vocabulary.unknown, token_key(file, "unknown_token_id", tokens));
  }
  const bool by_scores = vocabulary.kind == VocabularyKind::scores;
  TRY_ASSIGN(const std::optional<bool> add_bos, file.boolean(key_of("add_bos_token")));
  TRY_ASSIGN(const std::optional<bool> add_eos, file.boolean(key_of("add_eos_token")));
  TRY_ASSIGN(const std::optional<bool> add_space, file.boolean(key_of("add_space_prefix")));
  vocabulary.add_bos = add_bos.value_or(by_scores) && vocabulary.bos.has_value();
  vocabulary.add_eos = add_eos.value_or(false) && vocabulary.eos.has_value();
  vocabulary.add_space_prefix = add_space.value_or(by_scores);
  return {};
}

// Spellings that end a turn or a reply. Muse's <|eom|> is on purpose not among them.
constexpr std::array<std::string_view, 10> kEndTexts = {
    "<end_of_turn>", "<|eot_id|>", "<|im_end|>", "<|endoftext|>",    "<|end_of_text|>",
    "<eos>",         "<turn|>",    "<|return|>", "<|tool_response>", "<|call|>"};

}  // namespace

Result<Vocabulary> read_vocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  TRY_ASSIGN(vocabulary.tokens, file.texts(key_of("tokens")));
  if (vocabulary.tokens.empty()) {
    const std::string key = key_of("tokens");
    return fail(Errc::not_found, key + ": got no tokens, expected at least 1", key);
  }
  TRY(read_types(file, vocabulary));
  TRY(read_kind(file, vocabulary));
  TRY(read_special_tokens(file, vocabulary));
  return vocabulary;
}

Result<std::vector<TokenId>> read_stop_ids(const GgufFile& file, const Vocabulary& vocabulary) {
  std::vector<TokenId> ids;
  for (const std::string_view name : {"eos_token_id", "eot_token_id"}) {
    TRY_ASSIGN(const std::optional<TokenId> id, token_key(file, name, vocabulary.tokens.size()));
    if (id) ids.push_back(*id);
  }
  if (vocabulary.eos) ids.push_back(*vocabulary.eos);  // the default of files without the key
  bool has_return = false, has_call = false;
  std::optional<TokenId> end;
  for (std::size_t index = 0; index < vocabulary.tokens.size(); index++) {
    if (vocabulary.types[index] != TokenType::control) continue;
    const std::string_view text = vocabulary.tokens[index];
    has_return = has_return || text == "<|return|>";
    has_call = has_call || text == "<|call|>";
    if (text == "<|end|>") end = static_cast<TokenId>(index);
    if (std::ranges::find(kEndTexts, text) == kEndTexts.end()) continue;
    ids.push_back(static_cast<TokenId>(index));
  }
  // gpt-oss: <|end|> only ends a message inside the reply.
  if (has_return && has_call && end) std::erase(ids, *end);
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return ids;
}

}  // namespace reprise
