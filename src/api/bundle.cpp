// Loading a model, and prompts in its own form.
#include "api/bundle.h"

#include <exception>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "api/folder_vocabulary.h"
#include "api/gguf_vocabulary.h"
#include "base/hash.h"
#include "base/log.h"
#include "model/gguf.h"
#include "model/settings.h"

namespace reprise {
namespace {

// The file's template, else the family's own. A template that does not compile is reported once,
// and the model serves completions only.
std::optional<ChatTemplate> compile_template(std::string_view source) {
  if (source.empty()) return std::nullopt;
  Result<ChatTemplate> compiled = ChatTemplate::compile(source);
  if (!compiled) {
    spdlog::warn("chat template: {}; chat is not available", compiled.error().message);
    return std::nullopt;
  }
  return std::move(*compiled);
}

// The name of the split rules, tried on a vocabulary of one token: an unknown one is told before
// the weights are packed. Errors: as Tokenizer::from_vocabulary, naming the key.
Status check_pre_tokenizer(const Vocabulary& vocabulary) {
  if (vocabulary.kind != VocabularyKind::merges) return {};
  const Vocabulary small{.kind = VocabularyKind::merges,
                         .tokens = {"a"},
                         .scores = {},
                         .types = {TokenType::normal},
                         .merges = {},
                         .pre_tokenizer = vocabulary.pre_tokenizer,
                         .bos = {},
                         .eos = {},
                         .unknown = {}};
  const Result<Tokenizer> made = Tokenizer::from_vocabulary(small);
  if (made) return {};
  constexpr const char* kKey = "tokenizer.ggml.pre";
  return fail(made.error().code, fmt::format("{}: {}", kKey, made.error().message), kKey);
}

// Makes the tokenizer of a GGUF file on a thread of its own: of a large vocabulary that takes
// longer than loading the weights. It reads the file through a view of its own.
class TokenizerThread {
 public:
  // `weights` is what was opened at `path` before. Errors: as Checkpoint::open, read_vocabulary and
  // check_pre_tokenizer; io when another file lies there by now.
  static Result<std::unique_ptr<TokenizerThread>> start(const std::filesystem::path& path,
                                                        const GgufFile& weights) {
    TRY_ASSIGN(Checkpoint file, Checkpoint::open(path));
    if (!is_same_file(file.gguf(), weights)) {
      return fail(Errc::io, fmt::format("{}: got another file when opened for its tokenizer, "
                                        "expected the one opened for its weights",
                                        path.string()));
    }
    TRY_ASSIGN(Vocabulary vocabulary, read_vocabulary(*file.gguf()));
    TRY(check_pre_tokenizer(vocabulary));
    auto thread = std::make_unique<TokenizerThread>(std::move(file), std::move(vocabulary));
    thread->thread_ = std::jthread([self = thread.get()] { self->make(); });
    return thread;
  }
  TokenizerThread(Checkpoint file, Vocabulary vocabulary)
      : file_(std::move(file)), vocabulary_(std::move(vocabulary)) {}

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Waits for the tokenizer. Errors: as Tokenizer::from_vocabulary; exhausted.
  Result<Tokenizer> take() {
    thread_.join();
    return std::move(*made_);
  }

 private:
  static bool is_same_file(const GgufFile* file, const GgufFile& weights) {
    return file != nullptr && file->file() != nullptr && weights.file() != nullptr &&
           file->file()->is_same_file(*weights.file());
  }
  // A library's exception, such as memory that the system does not give, would end the program.
  void make() {
    try {
      made_.emplace(Tokenizer::from_vocabulary(vocabulary_));
    } catch (const std::exception& error) {
      made_.emplace(fail(Errc::exhausted, fmt::format("tokenizer: {}", error.what())));
    }
  }

  Checkpoint file_;
  Vocabulary vocabulary_;
  std::optional<Result<Tokenizer>> made_;
  std::jthread thread_;  // last: it ends before what it uses goes
};

}  // namespace

Status Bundle::read_gguf_text(const GgufFile& file, const Vocabulary& vocabulary,
                              std::string& template_source) {
  TRY_ASSIGN(stop_ids_, read_stop_ids(file, vocabulary));
  add_bos_ = vocabulary.add_bos;
  TRY_ASSIGN(const auto source, file.text("tokenizer.chat_template"));
  template_source = source.value_or("");
  return {};
}

Status Bundle::read_folder(const Checkpoint& checkpoint, ModelOptions& options,
                           std::string& template_source) {
  TRY_ASSIGN(const Settings settings, Settings::read(checkpoint));
  TRY_ASSIGN(const FamilyEntry* const family, find_family(settings));
  TRY_ASSIGN(FolderText text,
             read_folder_text(checkpoint.folder(), *checkpoint.config(), family->tag));
  stop_ids_ = std::move(text.stop_ids);
  tokenizer_ = std::make_unique<const Tokenizer>(std::move(text.tokenizer));
  add_bos_ = text.add_bos;
  template_source = std::move(text.chat_template);
  options.suppressed = std::move(text.suppressed_ids);
  return {};
}

Result<Bundle> Bundle::load(const std::filesystem::path& path, ThreadPool& pool,
                            const LoadProgress& progress, Quantization quantization) {
  TRY_ASSIGN(Checkpoint opened, Checkpoint::open(path));
  auto checkpoint = std::make_unique<const Checkpoint>(std::move(opened));
  Bundle bundle;
  std::string template_source;
  ModelOptions options;
  options.quantization = quantization;
  options.progress = progress;
  const bool is_gguf = checkpoint->format() == CheckpointFormat::gguf;
  std::unique_ptr<TokenizerThread> thread;
  if (is_gguf) {
    TRY_ASSIGN(thread, TokenizerThread::start(path, *checkpoint->gguf()));
    const Vocabulary& vocabulary = thread->vocabulary();
    TRY(bundle.read_gguf_text(*checkpoint->gguf(), vocabulary, template_source));
    options.vocabulary = static_cast<int>(vocabulary.tokens.size());
  } else {
    TRY(bundle.read_folder(*checkpoint, options, template_source));
    options.vocabulary = static_cast<int>(bundle.tokenizer_->size());
  }
  TRY_ASSIGN(Model model, Model::load(std::move(checkpoint), pool, options));
  bundle.model_ = std::make_unique<const Model>(std::move(model));
  if (thread) {
    TRY_ASSIGN(Tokenizer tokenizer, thread->take());
    bundle.tokenizer_ = std::make_unique<const Tokenizer>(std::move(tokenizer));
  }
  const std::size_t rows = static_cast<std::size_t>(bundle.model_->config().vocabulary);
  // Folders of text models may name tokens of images that the text model has no rows for.
  if (is_gguf && bundle.tokenizer_->size() > rows) {
    return fail(Errc::corrupt,
                fmt::format("tokenizer.ggml.tokens: got {} tokens, but the model's "
                            "embedding has {} rows",
                            bundle.tokenizer_->size(), rows),
                "tokenizer.ggml.tokens");
  }
  bundle.add_text_tools(std::move(template_source));
  return bundle;
}

std::string Bundle::fingerprint(kernels::KvType kv_type) const {
  std::string identity =
      fmt::format("model {}\nkv {}\nbos {}\ntemplate {}\n", model_->fingerprint(),
                  std::to_underlying(kv_type), add_bos_, chat_template_source_.size());
  identity += chat_template_source_;
  const auto add_ids = [&identity](std::string_view name, const std::vector<TokenId>& ids) {
    identity += fmt::format("\n{}", name);
    for (const TokenId id : ids) identity += fmt::format(" {}", id);
  };
  add_ids("stop", stop_ids_);
  add_ids("suppressed", model_->config().suppressed);
  const std::size_t tokens = tokenizer_->size();
  identity += fmt::format("\ntokens {}\n", tokens);
  for (std::size_t id = 0; id < tokens; id++) {
    const std::string_view text = tokenizer_->token_bytes(static_cast<TokenId>(id));
    identity += fmt::format("{} ", text.size());
    identity += text;
  }
  return content_hash(std::as_bytes(std::span(identity)));
}

void Bundle::add_text_tools(std::string template_source) {
  const ModelConfig& config = model_->config();
  if (template_source.empty()) template_source = builtin_chat_template(config.family);
  std::optional<ChatTemplate> chat_template = compile_template(template_source);
  if (chat_template) reply_style_ = detect_reply_style(template_source, config.family);
  grammars_ = std::make_unique<GrammarCompiler>(*tokenizer_, stop_ids_, config.vocabulary);
  sequence_breakers_ = std::make_unique<const SequenceBreakers>(*tokenizer_, config.vocabulary);
  prompts_.emplace(*tokenizer_, std::move(chat_template),
                   PromptWriterOptions{.add_bos = add_bos_,
                                       .vocabulary = config.vocabulary,
                                       .context_length = config.context_length,
                                       .turn_end_ids = turn_end_ids(*tokenizer_, stop_ids_),
                                       .style = reply_style_});
  if (prompts_->has_chat_template()) chat_template_source_ = std::move(template_source);
}

}  // namespace reprise
