// Loading a model, and prompts in its own form.
#include "api/bundle.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "api/folder_vocabulary.h"
#include "api/gguf_vocabulary.h"
#include "base/log.h"
#include "model/gguf.h"
#include "model/settings.h"

namespace reprise {
namespace {

// Tokens at the end of a text that the text's continuation may tokenise differently.
constexpr Position kUnstableTail = 8;

std::string spelling(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_bytes(*id)) : std::string();
}

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

Position common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

Status Bundle::read_gguf_text(const GgufFile& file, std::string& template_source) {
  TRY_ASSIGN(const Vocabulary vocabulary, read_vocabulary(file));
  TRY_ASSIGN(stop_ids_, read_stop_ids(file, vocabulary));
  TRY_ASSIGN(Tokenizer tokenizer, Tokenizer::from_vocabulary(vocabulary));
  tokenizer_ = std::make_unique<const Tokenizer>(std::move(tokenizer));
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
  TRY(is_gguf ? bundle.read_gguf_text(*checkpoint->gguf(), template_source)
              : bundle.read_folder(*checkpoint, options, template_source));
  options.vocabulary = static_cast<int>(bundle.tokenizer_->size());
  TRY_ASSIGN(Model model, Model::load(std::move(checkpoint), pool, options));
  bundle.model_ = std::make_unique<const Model>(std::move(model));
  const std::size_t rows = static_cast<std::size_t>(bundle.model_->config().vocabulary);
  // Folders of text models may name tokens of images that the text model has no rows for.
  if (is_gguf && bundle.tokenizer_->size() > rows) {
    return fail(Errc::corrupt,
                fmt::format("tokenizer.ggml.tokens: got {} tokens, but the model's "
                            "embedding has {} rows",
                            bundle.tokenizer_->size(), rows),
                "tokenizer.ggml.tokens");
  }
  if (template_source.empty()) {
    template_source = builtin_chat_template(bundle.model_->config().family);
  }
  bundle.template_ = compile_template(template_source);
  return bundle;
}

Result<PreparedPrompt> Bundle::prepare_chat(const std::vector<ChatMessage>& messages) const {
  if (!template_) {
    return fail(Errc::unsupported, "the model has no chat template: only completions are available",
                "messages");
  }
  ChatTemplate::Options options;
  options.bos_token = spelling(*tokenizer_, tokenizer_->bos());
  options.eos_token = spelling(*tokenizer_, tokenizer_->eos());
  TRY_ASSIGN(const std::string prompt, template_->render(messages, options));
  PreparedPrompt prepared;
  TRY_ASSIGN(prepared.ids, encode_prompt(prompt, "messages"));
  options.add_generation_prompt = false;
  // Some templates cannot render a history that ends here: then there is no boundary, no error.
  const Result<std::string> history = template_->render(messages, options);
  if (!history) return prepared;
  TRY_ASSIGN(const Position common, common_with_history(prepared.ids, prompt, *history));
  prepared.history_boundary = back_to_stable(prepared.ids, common);
  return prepared;
}

Result<PreparedPrompt> Bundle::prepare_text(std::string_view text) const {
  PreparedPrompt prepared;
  TRY_ASSIGN(prepared.ids, encode_prompt(text, "prompt"));
  return prepared;
}

// A text that can never fit is refused by its size: tokenising megabytes takes seconds, in which
// nobody else's request is prepared.
Result<std::vector<TokenId>> Bundle::encode_prompt(std::string_view text,
                                                   std::string_view param) const {
  const std::size_t least = tokenizer_->least_tokens(text);
  const auto room = static_cast<std::size_t>(model_->config().context_length);
  if (least >= room) {
    return fail(Errc::exhausted,
                fmt::format("the prompt has at least {} tokens ({} bytes), but the context length "
                            "is {} tokens and the reply needs at least 1",
                            least, text.size(), room),
                std::string(param));
  }
  TRY_ASSIGN(std::vector<TokenId> ids, tokenizer_->encode(text, AddSpecial::no, ParseSpecial::yes));
  for (const TokenId id : ids) {
    if (id < model_->config().vocabulary) continue;
    return fail(Errc::invalid_argument,
                fmt::format("the text contains \"{}\" (token {}), which this text model does not "
                            "have: its ids end at {}",
                            tokenizer_->token_bytes(id), id, model_->config().vocabulary - 1),
                std::string(param));
  }
  const std::optional<TokenId> bos = tokenizer_->bos();
  if (add_bos_ && bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  return ids;
}

// A generation prompt that begins with a special token leaves the history's tokens as they are (a
// special token is a hard border), so that only its own few need to be found at the end of `ids`.
// Else the history is tokenised too.
Result<Position> Bundle::common_with_history(const std::vector<TokenId>& ids,
                                             std::string_view prompt,
                                             std::string_view history) const {
  if (prompt.starts_with(history)) {
    TRY_ASSIGN(
        const std::vector<TokenId> added,
        tokenizer_->encode(prompt.substr(history.size()), AddSpecial::no, ParseSpecial::yes));
    const bool is_tail =
        added.size() <= ids.size() && std::equal(added.rbegin(), added.rend(), ids.rbegin());
    if (is_tail && !added.empty() && tokenizer_->is_special(added.front())) {
      return static_cast<Position>(ids.size() - added.size());
    }
  }
  TRY_ASSIGN(const std::vector<TokenId> without, encode_prompt(history, "messages"));
  return common_prefix(ids, without);
}

// Text after the last special token may be tokenised otherwise once more text follows it. (A first
// token's being special says nothing: it is the bos of a template that has no special tokens.)
Position Bundle::back_to_stable(const std::vector<TokenId>& ids, Position common) const {
  for (Position end = common; end > 1; end--) {
    if (tokenizer_->is_special(ids[static_cast<std::size_t>(end - 1)])) return end;
  }
  return std::max<Position>(common - kUnstableTail, 0);
}

}  // namespace reprise
