// Everything that one model gives: weights, tokenizer, chat template, stop tokens.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace reprise {

// A rendered chat and where the next turn's prompt will surely still agree with it.
struct PreparedPrompt {
  std::vector<TokenId> ids;
  Position history_boundary = 0;
};

class Bundle {
 public:
  // Loads a GGUF file (or set of them), or a Hugging Face or MLX folder.
  // Errors: one line naming the tensor, key, type or file.
  static Result<Bundle> load(const std::filesystem::path& path, ThreadPool& pool,
                             const LoadProgress& progress,
                             Quantization quantization = Quantization::none);

  const Model& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  bool has_chat_template() const { return template_.has_value(); }
  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }  // end-of-sequence tokens

  // Messages to prompt ids. The history boundary is the common token prefix of the rendering with
  // and without generation prompt, backed to the end of its last special token (else by 8 tokens).
  // Errors: invalid_argument (the template's message), unsupported (no template), exhausted (so
  // long a text that it cannot fit into the model's context; both numbers).
  Result<PreparedPrompt> prepare_chat(const std::vector<ChatMessage>& messages) const;
  // Plain text to prompt ids, bos in front where the model wants it (never twice).
  // Errors: invalid_argument (no UTF-8), exhausted as above.
  Result<PreparedPrompt> prepare_text(std::string_view text) const;

 private:
  Bundle() = default;
  // What the files say about text -> everything but the model; suppressed ids into `options`.
  Status read_gguf_text(const GgufFile& file, std::string& template_source);
  Status read_folder(const Checkpoint& checkpoint, ModelOptions& options,
                     std::string& template_source);
  Result<std::vector<TokenId>> encode_prompt(std::string_view text, std::string_view param) const;
  Result<Position> common_with_history(const std::vector<TokenId>& ids, std::string_view prompt,
                                       std::string_view history) const;
  Position back_to_stable(const std::vector<TokenId>& ids, Position common) const;

  std::unique_ptr<const Model> model_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
  std::vector<TokenId> stop_ids_;
  bool add_bos_ = false;
};

}  // namespace reprise
