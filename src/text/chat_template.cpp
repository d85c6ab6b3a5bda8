// ChatTemplate over text-ffi, and the built-in templates.
#include "text/chat_template.h"

#include <utility>

#include <fmt/core.h>

#include "base/json.h"
#include "text/ffi.h"
#include "text/utf8.h"

namespace reprise {
namespace {

struct FreeTemplate {
  void operator()(TextTemplate* chat_template) const { text_template_free(chat_template); }
};

// Renders what the template that Google ships renders for text messages: the system message goes in
// front of the first user message, and user and assistant must take turns.
constexpr std::string_view kGemma3Template = R"({{ bos_token }}
{%- set system = messages[0]['content'] + '\n\n' if messages[0]['role'] == 'system' else '' -%}
{%- for message in (messages[1:] if messages[0]['role'] == 'system' else messages) -%}
  {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
    {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
  {%- endif -%}
  {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
  {{ '<start_of_turn>' + role + '\n' + (system if loop.first else '') }}
  {{- message['content'] | trim + '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
)";

// The variables that transformers' apply_chat_template sets.
std::string context_json(const std::vector<ChatMessage>& messages,
                         const ChatTemplate::Options& options) {
  JsonArray list;
  for (const ChatMessage& message : messages) {
    list.push_back(JsonObject{{"role", message.role}, {"content", message.content}});
  }
  return to_json(JsonObject{{"messages", std::move(list)},
                            {"tools", nullptr},
                            {"documents", nullptr},
                            {"add_generation_prompt", options.add_generation_prompt},
                            {"bos_token", options.bos_token},
                            {"eos_token", options.eos_token}});
}

}  // namespace

struct ChatTemplate::State {
  std::unique_ptr<TextTemplate, FreeTemplate> compiled;
};

ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::compile(std::string_view source) {
  TextTemplate* compiled = nullptr;
  ffi::Buffer error;
  const auto status = text_template_compile(ffi::slice(source), &compiled, error.out());
  if (status != TEXT_OK) return ffi::failure(status, error);
  auto state = std::make_unique<State>();
  state->compiled.reset(compiled);
  return ChatTemplate(std::move(state));
}

Result<std::string> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                         const Options& options) const {
  // Checked here because JSON would quietly replace what is not text.
  for (std::size_t index = 0; index < messages.size(); ++index) {
    if (is_utf8(messages[index].role) && is_utf8(messages[index].content)) continue;
    return fail(Errc::invalid_argument, fmt::format("message {} is not UTF-8", index), "messages");
  }
  const std::string context = context_json(messages, options);
  ffi::Buffer text, error;
  const auto status =
      text_template_render(state_->compiled.get(), ffi::slice(context), text.out(), error.out());
  if (status != TEXT_OK) return ffi::failure(status, error, "messages");
  return text.text();
}

std::string_view builtin_chat_template(std::string_view family_tag) {
  return family_tag == "gemma3" ? kGemma3Template : std::string_view();
}

}  // namespace reprise
