// Rendering, tokenising, and what both say about the next turn.
#include "api/prompt_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "api/call_messages.h"
#include "api/limits.h"
#include "base/check.h"
#include "text/tool_prompt.h"
#include "text/utf8.h"

namespace reprise {
namespace {

// Tokens at the end of a text that the text's continuation may tokenise differently.
constexpr Position kUnstableTail = 8;

constexpr std::string_view kSpace = " \n\r\t";

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

Result<PreparedPrompt> PromptWriter::prepare_chat(const std::vector<ChatMessage>& messages,
                                                  const ChatSettings& settings) const {
  TRY_ASSIGN(const Rendering rendering, render(messages, settings));
  const std::string_view prompt = rendering.prompt;
  PreparedPrompt prepared;
  TRY_ASSIGN(prepared.ids, encode_prompt(prompt, "messages"));
  prepared.turn_ends = turn_ends(prepared.ids);
  if (settings.end != PromptEnd::reply) {  // all of it is history
    if (settings.end == PromptEnd::content) prepared.thoughts = Thoughts::closed;
    const auto length = static_cast<Position>(prepared.ids.size());
    prepared.history_boundary = back_to_stable(prepared.ids, length);
    return prepared;
  }
  const bool is_extended = rendering.history && prompt.starts_with(*rendering.history);
  prepared.thoughts = thoughts_at(options_.style.format,
                                  is_extended ? prompt.substr(rendering.history->size()) : prompt);
  if (!rendering.history) return prepared;
  // A history that is too long gives no boundary, no error.
  const Result<Position> common = common_with_history(prepared.ids, prompt, *rendering.history);
  if (common) prepared.history_boundary = back_to_stable(prepared.ids, *common);
  return prepared;
}

Result<PromptWriter::Rendering> PromptWriter::render(const std::vector<ChatMessage>& messages,
                                                     const ChatSettings& settings) const {
  if (!template_) {
    return fail(Errc::unsupported, "the model has no chat template: only completions are available",
                "messages");
  }
  ChatTemplate::Options options;
  options.bos_token = spelling(*tokenizer_, tokenizer_->bos());
  options.eos_token = spelling(*tokenizer_, tokenizer_->eos());
  TRY_ASSIGN(options.variables, template_variables(settings, options_.style.thinking_name));
  if (options_.style.renders_tools) options.tools = template_tools(settings.tools);
  const bool needs_words =
      !options_.style.renders_tools && (!settings.tools.empty() || has_calls(messages));
  std::vector<ChatMessage> shown =
      needs_words ? messages_with_tools_as_text(messages, template_tools(settings.tools))
                  : messages;
  options.add_generation_prompt = settings.end == PromptEnd::reply;
  TRY_ASSIGN(std::string prompt, settings.end == PromptEnd::content
                                     ? render_continued(shown, options)
                                     : render_some_way(shown, options));
  Rendering rendering{std::move(prompt), std::nullopt};
  if (settings.end != PromptEnd::reply) return rendering;
  options.add_generation_prompt = false;
  // Some templates cannot render a history that ends here.
  Result<std::string> history = template_->render(shown, options);
  if (history) rendering.history = std::move(*history);
  return rendering;
}

// Some templates know one call a message, some want user and assistant to take turns. What they
// refuse is put in their way where nothing gets lost; else the first refusal counts.
Result<std::string> PromptWriter::render_some_way(std::vector<ChatMessage>& shown,
                                                  const ChatTemplate::Options& options) const {
  Result<std::string> prompt = template_->render(shown, options);
  for (const auto reword : {split_parallel_calls, join_same_speakers}) {
    if (prompt) break;
    std::vector<ChatMessage> other = reword(shown);
    if (other.size() == shown.size()) continue;
    if (Result<std::string> again = template_->render(other, options)) {
      shown = std::move(other);
      prompt = std::move(again);
    }
  }
  return prompt;
}

// As transformers does it (apply_chat_template's continue_final_message): a word behind the text
// shows where the text ends, which may well stand in the end of turn, too ("e" in "<|im_end|>").
Result<std::string> PromptWriter::render_continued(std::vector<ChatMessage>& shown,
                                                   const ChatTemplate::Options& options) const {
  constexpr std::string_view kEndOfText = "CONTINUE-FINAL-MESSAGE";
  const std::string text = shown.back().content;
  const std::size_t begin = text.find_first_not_of(kSpace);
  CHECK(begin != std::string::npos);
  shown.back().content += kEndOfText;
  TRY_ASSIGN(std::string prompt, render_some_way(shown, options));
  const std::size_t end = prompt.rfind(kEndOfText);
  prompt.resize(end == std::string::npos ? 0 : end);
  // Where a text begins is the template's to say.
  if (prompt.ends_with(std::string_view(text).substr(begin))) {
    return prompt;
  }
  return fail(Errc::invalid_argument,
              "continue_final_message: got true, but the model's template does not show the text "
              "of the last message as it is",
              "continue_final_message");
}

Result<std::string> PromptWriter::render_chat(const std::vector<ChatMessage>& messages,
                                              const ChatSettings& settings) const {
  TRY_ASSIGN(Rendering rendering, render(messages, settings));
  return std::move(rendering.prompt);
}

Result<PreparedPrompt> PromptWriter::prepare_text(std::string_view text,
                                                  std::string_view param) const {
  PreparedPrompt prepared;
  TRY_ASSIGN(prepared.ids, encode_prompt(text, param));
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
  return encode(text, AddSpecial::yes, ParseSpecial::yes, param);
}

Result<std::vector<TokenId>> PromptWriter::tokenize(std::string_view text, AddSpecial add,
                                                    ParseSpecial parse,
                                                    std::string_view param) const {
  constexpr std::size_t kBytesLeast = std::size_t{1} << 20;
  constexpr std::size_t kBytesPerToken = 16;  // four contexts of four bytes a token
  const std::size_t most =
      std::max(kBytesLeast, kBytesPerToken * static_cast<std::size_t>(options_.context_length));
  if (text.size() > most) {
    return fail(
        Errc::invalid_argument,
        fmt::format("{}: got a text of {} bytes, expected at most {}", param, text.size(), most),
        std::string(param));
  }
  return encode(text, add, parse, param);
}

Result<std::vector<TokenId>> PromptWriter::encode(std::string_view text, AddSpecial add,
                                                  ParseSpecial parse,
                                                  std::string_view param) const {
  TRY_ASSIGN(std::vector<TokenId> ids, tokenizer_->encode(text, AddSpecial::no, parse));
  for (const TokenId id : ids) {
    if (id < options_.vocabulary) continue;
    return fail(Errc::invalid_argument,
                fmt::format("the text contains \"{}\" (token {}), which this text model does not "
                            "have: its ids end at {}",
                            tokenizer_->token_bytes(id), id, options_.vocabulary - 1),
                std::string(param));
  }
  const std::optional<TokenId> bos = tokenizer_->bos();
  const bool wants_bos = add == AddSpecial::yes && options_.add_bos && bos.has_value();
  if (wants_bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  return ids;
}

Result<std::string> PromptWriter::detokenize(std::span<const TokenId> ids,
                                             std::string_view param) const {
  TRY(check_ids(ids, param));
  std::string pending, text;
  for (const TokenId id : ids) {
    pending += tokenizer_->token_bytes(id);
    text += take_utf8(pending);
  }
  if (!pending.empty()) text += kReplacementCharacter;
  return text;
}

Status PromptWriter::check_ids(std::span<const TokenId> ids, std::string_view param) const {
  for (std::size_t index = 0; index < ids.size(); index++) {
    if (ids[index] >= 0 && ids[index] < options_.vocabulary) continue;
    const std::string path = fmt::format("{}[{}]", param, index);
    return fail(Errc::invalid_argument,
                fmt::format("{}: got token id {}, expected 0 to {}", path, ids[index],
                            options_.vocabulary - 1),
                path);
  }
  return {};
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
