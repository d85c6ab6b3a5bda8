// Rendering, tokenising, and what both say about the next turn.
#include "api/prompt_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "api/limits.h"

namespace reprise {
namespace {

// Tokens at the end of a text that the text's continuation may tokenise differently.
constexpr Position kUnstableTail = 8;

// Spellings that end a message without ending a reply.
constexpr std::array<std::string_view, 4> kMessageEnds = {"<|end|>", "<|eom|>", "<|eom_id|>",
                                                          "<|eot|>"};

std::string spelling(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_bytes(*id)) : std::string();
}

Position common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

PromptWriter::PromptWriter(const Tokenizer& tokenizer, std::optional<ChatTemplate> chat_template,
                           PromptWriterOptions options)
    : tokenizer_(&tokenizer), template_(std::move(chat_template)), options_(std::move(options)) {}

Result<PreparedPrompt> PromptWriter::prepare_chat(const std::vector<ChatMessage>& messages) const {
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
  prepared.turn_ends = turn_ends(prepared.ids);
  options.add_generation_prompt = false;
  // Some templates cannot render a history that ends here, or render one that is too long: then
  // there is no boundary, no error.
  const Result<std::string> history = template_->render(messages, options);
  if (!history) return prepared;
  const Result<Position> common = common_with_history(prepared.ids, prompt, *history);
  if (common) prepared.history_boundary = back_to_stable(prepared.ids, *common);
  return prepared;
}

Result<PreparedPrompt> PromptWriter::prepare_text(std::string_view text) const {
  PreparedPrompt prepared;
  TRY_ASSIGN(prepared.ids, encode_prompt(text, "prompt"));
  prepared.turn_ends = turn_ends(prepared.ids);
  return prepared;
}

// A text that can never fit is refused by its size: tokenising megabytes takes seconds, in which
// nobody else's request is prepared.
Result<std::vector<TokenId>> PromptWriter::encode_prompt(std::string_view text,
                                                         std::string_view param) const {
  const std::size_t least = tokenizer_->least_tokens(text);
  const auto room = static_cast<std::size_t>(options_.context_length);
  if (least >= room) {
    return fail(Errc::exhausted,
                fmt::format("the prompt has at least {} tokens ({} bytes), but the context length "
                            "is {} tokens and the reply needs at least 1",
                            least, text.size(), room),
                std::string(param));
  }
  TRY_ASSIGN(std::vector<TokenId> ids, tokenizer_->encode(text, AddSpecial::no, ParseSpecial::yes));
  for (const TokenId id : ids) {
    if (id < options_.vocabulary) continue;
    return fail(Errc::invalid_argument,
                fmt::format("the text contains \"{}\" (token {}), which this text model does not "
                            "have: its ids end at {}",
                            tokenizer_->token_bytes(id), id, options_.vocabulary - 1),
                std::string(param));
  }
  const std::optional<TokenId> bos = tokenizer_->bos();
  if (options_.add_bos && bos && (ids.empty() || ids.front() != *bos))
    ids.insert(ids.begin(), *bos);
  return ids;
}

// A generation prompt that begins with a special token leaves the history's tokens as they are (a
// special token is a hard border), so that only its own few need to be found at the end of `ids`.
// Else the history is tokenised too.
Result<Position> PromptWriter::common_with_history(const std::vector<TokenId>& ids,
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
Position PromptWriter::back_to_stable(const std::vector<TokenId>& ids, Position common) const {
  for (Position end = common; end > 1; end--) {
    if (tokenizer_->is_special(ids[static_cast<std::size_t>(end - 1)])) return end;
  }
  return std::max<Position>(common - kUnstableTail, 0);
}

std::vector<Position> PromptWriter::turn_ends(std::span<const TokenId> ids) const {
  std::vector<Position> ends;
  for (std::size_t index = ids.size(); index > 1 && ends.size() < kTurnEndsMax; index--) {
    const bool is_end =
        std::ranges::find(options_.turn_end_ids, ids[index - 1]) != options_.turn_end_ids.end();
    if (is_end) ends.push_back(static_cast<Position>(index));
  }
  std::ranges::reverse(ends);
  return ends;
}

std::vector<TokenId> turn_end_ids(const Tokenizer& tokenizer, std::span<const TokenId> stop_ids) {
  std::vector<TokenId> ids(stop_ids.begin(), stop_ids.end());
  for (const std::string_view text : kMessageEnds) {
    const std::optional<TokenId> id = tokenizer.find(text);
    if (id && std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
  }
  return ids;
}

}  // namespace reprise
