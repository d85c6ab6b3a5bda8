// ChatTemplate over text-ffi.
#include "text/chat_template.h"

#include <ctime>
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

// The variables that transformers' apply_chat_template sets.
std::string context_json(const std::vector<ChatMessage>& messages,
                         const ChatTemplate::Options& options) {
  JsonArray list;
  for (const ChatMessage& message : messages) {
    list.push_back(JsonObject{{"role", message.role}, {"content", message.content}});
  }
  JsonObject context{{"tools", nullptr},
                     {"documents", nullptr},
                     {"bos_token", options.bos_token},
                     {"eos_token", options.eos_token}};
  for (const auto& [name, value] : options.variables) context[name] = value;
  context["messages"] = std::move(list);
  context["add_generation_prompt"] = options.add_generation_prompt;
  return to_json(std::move(context));
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
  const std::int64_t now = options.now.value_or(std::time(nullptr));
  ffi::Buffer text, error;
  const auto status = text_template_render(state_->compiled.get(), ffi::slice(context), now,
                                           text.out(), error.out());
  if (status != TEXT_OK) return ffi::failure(status, error, "messages");
  return text.text();
}

}  // namespace reprise
