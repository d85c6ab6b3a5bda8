// Texts and chats to prompt tokens, and the places in them that the prompt cache should keep.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace reprise {

// A prompt, where the next turn's prompt will surely still agree with it, and where its messages
// end.
struct PreparedPrompt {
  std::vector<TokenId> ids;
  Position history_boundary = 0;
  std::vector<Position> turn_ends;  // see PromptWriter::turn_ends
};

struct PromptWriterOptions {
  bool add_bos = false;         // bos in front of what does not begin with it
  int vocabulary = 0;           // ids of the model end before it
  Position context_length = 0;  // the longest that the model knows
  std::vector<TokenId> turn_end_ids;
};

// Immutable: any thread may use it.
class PromptWriter {
 public:
  // The tokenizer must outlive this. Without a template there are texts only.
  PromptWriter(const Tokenizer& tokenizer, std::optional<ChatTemplate> chat_template,
               PromptWriterOptions options);

  bool has_chat_template() const { return template_.has_value(); }

  // Messages to prompt ids. The history boundary is the common token prefix of the rendering with
  // and without generation prompt, backed to the end of its last special token (else by 8 tokens).
  // Errors: invalid_argument (the template's message), unsupported (no template), exhausted (so
  // long a text that it cannot fit into the model's context; both numbers).
  Result<PreparedPrompt> prepare_chat(const std::vector<ChatMessage>& messages) const;
  // Plain text to prompt ids, bos in front where the model wants it (never twice).
  // Errors: invalid_argument (no UTF-8), exhausted as above.
  Result<PreparedPrompt> prepare_text(std::string_view text) const;

  // The lengths of what ends with a turn-end token, ascending: of the newest kTurnEndsMax such
  // tokens. A first token is none: there it is a bos. None for a model without such tokens.
  std::vector<Position> turn_ends(std::span<const TokenId> ids) const;

 private:
  Result<std::vector<TokenId>> encode_prompt(std::string_view text, std::string_view param) const;
  Result<Position> common_with_history(const std::vector<TokenId>& ids, std::string_view prompt,
                                       std::string_view history) const;
  Position back_to_stable(const std::vector<TokenId>& ids, Position common) const;

  const Tokenizer* tokenizer_;
  std::optional<ChatTemplate> template_;
  PromptWriterOptions options_;
};

// The tokens that end a message in prompts: those that end a reply, and those that only separate
// messages inside one (gpt-oss's <|end|>, Muse's <|eom|> ...).
std::vector<TokenId> turn_end_ids(const Tokenizer& tokenizer, std::span<const TokenId> stop_ids);

}  // namespace reprise
