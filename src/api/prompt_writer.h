// Texts and chats to prompt tokens, and the places in them that the prompt cache should keep.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat_settings.h"
#include "base/error.h"
#include "text/chat_template.h"
#include "text/reply_parser.h"
#include "text/tokenizer.h"

namespace reprise {

// A prompt, where the next turn's prompt will surely still agree with it, and where its messages
// end.
struct PreparedPrompt {
  std::vector<TokenId> ids;
  Position history_boundary = 0;
  std::vector<Position> turn_ends;         // see PromptWriter::turn_ends
  Thoughts thoughts = Thoughts::unopened;  // of the reply that follows a chat
};

struct PromptWriterOptions {
  bool add_bos = false;         // bos in front of what does not begin with it
  int vocabulary = 0;           // ids of the model end before it
  Position context_length = 0;  // the longest that the model knows
  std::vector<TokenId> turn_end_ids;
  ReplyStyle style = {};  // what the template shows by itself
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
  // With PromptEnd::content the last message must have text, and the prompt ends with all of it,
  // also where the template drops whitespace at its end.
  // Tools are shown by the template, or in words of ours where it shows none (text/tool_prompt.h).
  // Errors: invalid_argument (the template's message; a reserved name among the variables; a last
  // message that the template does not show as it is, where the reply would go on with it),
  // unsupported (no template), exhausted (so long a text that it cannot fit into the model's
  // context; both numbers).
  Result<PreparedPrompt> prepare_chat(const std::vector<ChatMessage>& messages,
                                      const ChatSettings& settings = {}) const;
  // Plain text to prompt ids, bos in front where the model wants it (never twice).
  // Errors: invalid_argument (no UTF-8), exhausted as above; `param` names the text.
  Result<PreparedPrompt> prepare_text(std::string_view text,
                                      std::string_view param = "prompt") const;

  // The text that prepare_chat makes tokens of (/apply-template). Errors: the same.
  Result<std::string> render_chat(const std::vector<ChatMessage>& messages,
                                  const ChatSettings& settings = {}) const;
  // A text's tokens as they are (/tokenize); with AddSpecial::yes bos in front, as prepare_text.
  // It need not fit into the context. Errors: invalid_argument (no UTF-8; more bytes than four
  // contexts of four bytes a token, 1 MiB at the least; both numbers).
  Result<std::vector<TokenId>> tokenize(std::string_view text, AddSpecial add, ParseSpecial parse,
                                        std::string_view param = "content") const;
  // The text that tokens stand for, special ones by their spelling (/detokenize, echo); what is no
  // UTF-8 becomes U+FFFD. Errors: invalid_argument (an id that the model does not have; names the
  // index).
  Result<std::string> detokenize(std::span<const TokenId> ids,
                                 std::string_view param = "tokens") const;
  // Errors: invalid_argument, as detokenize.
  Status check_ids(std::span<const TokenId> ids, std::string_view param) const;

  // The lengths of what ends with a turn-end token, ascending: of the newest kTurnEndsMax such
  // tokens. A first token is none: there it is a bos. None for a model without such tokens.
  std::vector<Position> turn_ends(std::span<const TokenId> ids) const;

 private:
  struct Rendering {
    std::string prompt;
    // Without generation prompt; none: it cannot be rendered, or the prompt has none either.
    std::optional<std::string> history;
  };
  Result<std::string> render_continued(std::vector<ChatMessage>& shown,
                                       const ChatTemplate::Options& options) const;
  Result<Rendering> render(const std::vector<ChatMessage>& messages,
                           const ChatSettings& settings) const;
  Result<std::string> render_some_way(std::vector<ChatMessage>& shown,
                                      const ChatTemplate::Options& options) const;
  Result<std::vector<TokenId>> encode_prompt(std::string_view text, std::string_view param) const;
  Result<std::vector<TokenId>> encode(std::string_view text, AddSpecial add, ParseSpecial parse,
                                      std::string_view param) const;
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
