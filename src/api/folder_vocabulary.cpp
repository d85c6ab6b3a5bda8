// Text files of a model folder. Source: transformers' loading of tokenizers and its order of chat
// template files.
#include "api/folder_vocabulary.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/file.h"
#include "base/log.h"
#include "text/chat_template.h"

namespace reprise {
namespace {

constexpr std::uint64_t kTokenizerBytesMax = std::uint64_t{64} << 20;
constexpr std::uint64_t kSettingsBytesMax = std::uint64_t{16} << 20;
constexpr std::uint64_t kTemplateBytesMax = std::uint64_t{1} << 20;

// A file that need not be there.
Result<std::optional<std::string>> optional_file(const std::filesystem::path& path,
                                                 std::uint64_t bytes_max) {
  Result<std::string> text = read_file(path, bytes_max);
  if (text) return std::move(*text);
  if (text.error().code == Errc::not_found) return std::nullopt;
  return std::unexpected(std::move(text).error());
}

// The JSON object in a file; an empty one where there is no file.
Result<JsonObject> settings_of(const std::filesystem::path& folder, std::string_view name) {
  TRY_ASSIGN(const auto text, optional_file(folder / name, kSettingsBytesMax));
  if (!text) return JsonObject();
  Result<JsonValue> value = parse_json(*text, {.bytes_max = kSettingsBytesMax});
  if (!value) {
    return fail(Errc::corrupt, fmt::format("{}: {}", name, value.error().message),
                std::string(name));
  }
  if (!value->is_object()) {
    return fail(Errc::corrupt, fmt::format("{}: expected an object", name), std::string(name));
  }
  return std::move(value->as_object());
}

Result<std::string> tokenizer_json(const std::filesystem::path& folder) {
  constexpr std::string_view kName = "tokenizer.json";
  TRY_ASSIGN(auto text, optional_file(folder / kName, kTokenizerBytesMax));
  if (text) return std::move(*text);
  std::error_code ignored;
  const bool has_pieces = std::filesystem::exists(folder / "tokenizer.model", ignored);
  return fail(Errc::not_found,
              fmt::format("{}: no {}; it is required{}", folder.string(), kName,
                          has_pieces ? " (tokenizer.model alone is not enough: convert it with "
                                       "transformers' AutoTokenizer and save_pretrained)"
                                     : ""),
              std::string(kName));
}

// A special token's spelling: a text or {"content": text}; empty where it is absent or null.
Result<std::string> spelling_in(const JsonObject& settings, std::string_view file,
                                std::string_view key) {
  const JsonValue* value = settings.if_contains(key);
  if (value != nullptr && value->is_object()) value = value->as_object().if_contains("content");
  if (value == nullptr || value->is_null()) return std::string();
  if (value->is_string()) return std::string(value->as_string());
  return fail(Errc::corrupt,
              fmt::format("{}: {}: expected a text or an object with content", file, key),
              std::string(key));
}

Result<TokenizerNames> names_in(const JsonObject& tokenizer_config,
                                const std::filesystem::path& folder) {
  TRY_ASSIGN(const JsonObject fallback, settings_of(folder, "special_tokens_map.json"));
  TokenizerNames names;
  for (const auto& [key, name] : {std::pair{"bos_token", &names.bos}, {"eos_token", &names.eos}}) {
    TRY_ASSIGN(*name, spelling_in(tokenizer_config, "tokenizer_config.json", key));
    if (!name->empty()) continue;
    TRY_ASSIGN(*name, spelling_in(fallback, "special_tokens_map.json", key));
  }
  return names;
}

// A template as settings carry it: a text, or a list of named ones, of which "default" counts.
Result<std::string> template_in(const JsonObject& settings, std::string_view file) {
  constexpr std::string_view kKey = "chat_template";
  const JsonValue* value = settings.if_contains(kKey);
  if (value == nullptr || value->is_null()) return std::string();
  if (value->is_string()) return std::string(value->as_string());
  const auto wrong = [&] {
    return fail(Errc::corrupt,
                fmt::format("{}: {}: expected a text or a list of name and template", file, kKey),
                std::string(kKey));
  };
  if (!value->is_array()) return wrong();
  for (const JsonValue& entry : value->as_array()) {
    const JsonObject* named = entry.if_object();
    const JsonValue* name = named == nullptr ? nullptr : named->if_contains("name");
    const JsonValue* source = named == nullptr ? nullptr : named->if_contains("template");
    if (name == nullptr || source == nullptr || !source->is_string()) return wrong();
    if (*name == "default") return std::string(source->as_string());
  }
  return std::string();
}

Result<std::string> chat_template_of(const std::filesystem::path& folder,
                                     const JsonObject& tokenizer_config, std::string_view family) {
  TRY_ASSIGN(auto source, optional_file(folder / "chat_template.jinja", kTemplateBytesMax));
  if (source) return std::move(*source);
  constexpr std::string_view kFile = "chat_template.json";
  TRY_ASSIGN(const JsonObject file, settings_of(folder, kFile));
  TRY_ASSIGN(std::string from_file, template_in(file, kFile));
  if (!from_file.empty()) return from_file;
  TRY_ASSIGN(std::string from_config, template_in(tokenizer_config, "tokenizer_config.json"));
  if (!from_config.empty()) return from_config;
  return std::string(builtin_chat_template(family));
}

// The ids of a key that holds one or a list; none where it is absent or null.
Result<std::vector<TokenId>> ids_in(const JsonObject& settings, std::string_view file,
                                    std::string_view key, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  const JsonValue* value = settings.if_contains(key);
  if (value == nullptr || value->is_null()) return ids;
  const JsonArray one{*value};
  for (const JsonValue& entry : value->is_array() ? value->as_array() : one) {
    const std::int64_t* id = entry.if_int64();
    if (id == nullptr || *id < 0) {
      return fail(
          Errc::corrupt,
          fmt::format("{}: {}: got {}, expected token ids from 0", file, key, to_json(entry)),
          std::string(key));
    }
    // What is no token is never sampled.
    if (static_cast<std::uint64_t>(*id) >= tokenizer.size()) {
      spdlog::warn("{}: {}: the tokenizer has no id {} (its ids end at {})", file, key, *id,
                   tokenizer.size() - 1);
      continue;
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

// The first file that has an eos_token_id decides.
Result<std::vector<TokenId>> eos_ids(const JsonObject& generation, const JsonObject& config,
                                     const Tokenizer& tokenizer) {
  constexpr std::string_view kKey = "eos_token_id";
  const JsonValue* nested = config.if_contains("text_config");
  const JsonObject* text_config = nested == nullptr ? nullptr : nested->if_object();
  const std::pair<std::string_view, const JsonObject*> sources[] = {
      {"generation_config.json", &generation},
      {"config.json", &config},
      {"config.json: text_config", text_config}};
  for (const auto& [file, settings] : sources) {
    if (settings == nullptr) continue;
    const JsonValue* value = settings->if_contains(kKey);
    if (value != nullptr && !value->is_null()) return ids_in(*settings, file, kKey, tokenizer);
  }
  return std::vector<TokenId>();
}

void sort_and_dedupe(std::vector<TokenId>& ids) {
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
}

// tokenizer_config.json decides, else whether tokenizer.json's post-processor puts bos in front.
Result<bool> adds_bos(const JsonObject& tokenizer_config, const Tokenizer& tokenizer) {
  constexpr std::string_view kKey = "add_bos_token";
  if (!tokenizer.bos()) return false;
  const JsonValue* value = tokenizer_config.if_contains(kKey);
  if (value != nullptr && !value->is_null()) {
    if (value->is_bool()) return value->as_bool();
    return fail(Errc::corrupt,
                fmt::format("tokenizer_config.json: {}: got {}, expected true or false", kKey,
                            to_json(*value)),
                std::string(kKey));
  }
  TRY_ASSIGN(const std::vector<TokenId> around,
             tokenizer.encode("", AddSpecial::yes, ParseSpecial::no));
  return !around.empty() && around.front() == *tokenizer.bos();
}

}  // namespace

Result<FolderText> read_folder_text(const std::filesystem::path& folder, const JsonObject& config,
                                    std::string_view family) {
  TRY_ASSIGN(const JsonObject tokenizer_config, settings_of(folder, "tokenizer_config.json"));
  TRY_ASSIGN(const JsonObject generation, settings_of(folder, "generation_config.json"));
  TRY_ASSIGN(const TokenizerNames names, names_in(tokenizer_config, folder));
  TRY_ASSIGN(const std::string json, tokenizer_json(folder));
  TRY_ASSIGN(Tokenizer tokenizer, Tokenizer::from_json(json, names));
  TRY_ASSIGN(std::string chat_template, chat_template_of(folder, tokenizer_config, family));
  TRY_ASSIGN(std::vector<TokenId> stop_ids, eos_ids(generation, config, tokenizer));
  TRY_ASSIGN(std::vector<TokenId> suppressed_ids,
             ids_in(generation, "generation_config.json", "suppress_tokens", tokenizer));
  TRY_ASSIGN(const bool add_bos, adds_bos(tokenizer_config, tokenizer));
  if (tokenizer.eos()) stop_ids.push_back(*tokenizer.eos());
  if (family == "muse_glimmer") {
    if (const auto end_of_message = tokenizer.find("<|eom|>")) {
      std::erase(stop_ids, *end_of_message);
    }
  }
  const std::vector<TokenId> missing = tokenizer.missing_ids();
  suppressed_ids.insert(suppressed_ids.end(), missing.begin(), missing.end());
  sort_and_dedupe(stop_ids);
  sort_and_dedupe(suppressed_ids);
  return FolderText{.tokenizer = std::move(tokenizer),
                    .chat_template = std::move(chat_template),
                    .stop_ids = std::move(stop_ids),
                    .suppressed_ids = std::move(suppressed_ids),
                    .add_bos = add_bos};
}

}  // namespace reprise
