// Everything that one model gives: weights, tokenizer, chat template, stop tokens.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/prompt_writer.h"
#include "api/sequence_breakers.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "model/model.h"
#include "text/grammar.h"
#include "text/reply_parser.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace reprise {

class Bundle {
 public:
  // Loads a GGUF file (or set of them), or a Hugging Face or MLX folder.
  // Errors: one line naming the tensor, key, type or file.
  static Result<Bundle> load(const std::filesystem::path& path, ThreadPool& pool,
                             const LoadProgress& progress,
                             Quantization quantization = Quantization::none);

  const Model& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  bool has_chat_template() const { return prompts_->has_chat_template(); }
  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }  // end-of-sequence tokens

  // Of all that a reply depends on besides its request: the model's fingerprint, how keys and
  // values are kept, vocabulary, stop and suppressed tokens, chat template. Hexadecimal digits.
  std::string fingerprint(kernels::KvType kv_type) const;

  const std::string& chat_template_source() const { return chat_template_source_; }
  const ReplyStyle& reply_style() const { return reply_style_; }  // of chats
  // Any thread may use both.
  GrammarCompiler& grammars() const { return *grammars_; }
  const SequenceBreakers& sequence_breakers() const { return *sequence_breakers_; }

  // Texts and chats to prompts.
  const PromptWriter& prompts() const { return *prompts_; }
  Result<PreparedPrompt> prepare_chat(const std::vector<ChatMessage>& messages,
                                      const ChatSettings& settings = {}) const {
    return prompts_->prepare_chat(messages, settings);
  }
  Result<PreparedPrompt> prepare_text(std::string_view text) const {
    return prompts_->prepare_text(text);
  }

 private:
  Bundle() = default;
  // What the files say about text -> everything but the model; suppressed ids into `options`. Of a
  // GGUF file everything but the tokenizer too.
  Status read_gguf_text(const GgufFile& file, const Vocabulary& vocabulary,
                        std::string& template_source);
  Status read_folder(const Checkpoint& checkpoint, ModelOptions& options,
                     std::string& template_source);
  // The rest of the bundle, once the model and the tokenizer are there.
  void add_text_tools(std::string template_source);

  std::unique_ptr<const Model> model_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::vector<TokenId> stop_ids_;
  bool add_bos_ = false;
  std::string chat_template_source_;  // empty: there is none
  ReplyStyle reply_style_;
  std::unique_ptr<GrammarCompiler> grammars_;
  std::unique_ptr<const SequenceBreakers> sequence_breakers_;
  std::optional<PromptWriter> prompts_;
};

}  // namespace reprise
