// What a Hugging Face model folder says about text: tokenizer, chat template, end-of-sequence
// tokens.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace reprise {

struct FolderText {
  Tokenizer tokenizer;
  std::string chat_template;            // Jinja; empty when there is none
  std::vector<TokenId> stop_ids;        // end a reply; ascending, each once
  std::vector<TokenId> suppressed_ids;  // never to be sampled; ascending, each once
  bool add_bos = false;                 // bos belongs in front of a text without it
};

// Reads tokenizer.json (required), tokenizer_config.json, special_tokens_map.json,
// chat_template.jinja or .json, and generation_config.json. `config` is config.json, `family` the
// model's family tag.
// stop_ids: generation_config's eos_token_id, else config's, else its text_config's; the
// tokenizer's eos always; never Muse's <|eom|>, after which its answer only begins.
// suppressed_ids: generation_config's suppress_tokens, and ids without a token.
// Errors: not_found (no tokenizer.json), corrupt and unsupported, naming file and key.
Result<FolderText> read_folder_text(const std::filesystem::path& folder, const JsonObject& config,
                                    std::string_view family);

}  // namespace reprise
