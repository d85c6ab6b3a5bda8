// Chat messages to prompt text by the model's Jinja template, rendered as transformers renders it.
// Immutable after construction: any thread may use it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace reprise {

// A call of a function that an assistant asked for.
struct ToolCall {
  std::string id = {};
  std::string name = {};
  JsonObject arguments = {};
};

struct ChatMessage {
  std::string role;  // system, user, assistant, tool
  std::string content = {};
  std::string reasoning = {};             // of an assistant: what it thought before
  std::vector<ToolCall> tool_calls = {};  // of an assistant
  std::string tool_call_id = {};          // of a tool: which call it answers
  std::string name = {};                  // of a tool: the function; else who speaks
};

class ChatTemplate {
 public:
  // Errors: invalid_argument with the template's line.
  static Result<ChatTemplate> compile(std::string_view source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  struct Options {
    bool add_generation_prompt = true;
    std::string bos_token = {}, eos_token = {};
    // Functions that the model may call: [{"type": "function", "function": {...}}].
    JsonArray tools = {};
    // More variables, as transformers' apply_chat_template passes on (enable_thinking,
    // reasoning_strength ...); "messages", "tools" and "add_generation_prompt" are not among them.
    JsonObject variables = {};
    // What strftime_now shows, in seconds since 1970, as local time; nothing: now.
    std::optional<std::int64_t> now = {};
  };
  // Errors: invalid_argument when a message or tool is not UTF-8, when the template raises (its
  // message) or runs out of its step budget. Needs 512 KiB of stack. The budget does not see lists
  // added to themselves dozens of times: a template is as trusted as the model file that it comes
  // from.
  Result<std::string> render(const std::vector<ChatMessage>& messages,
                             const Options& options) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The template of a family whose files may carry none ("gemma3", "llama4", "afmoe"); empty when the
// family has none.
std::string_view builtin_chat_template(std::string_view family_tag);

}  // namespace reprise
