// Items to JSON and to chat messages.
#include "api/responses_items.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include "api/call_messages.h"
#include "api/responses_tools.h"

namespace reprise {
namespace {

using Kind = ResponseItem::Kind;

std::string_view state_name(ResponseItem::State state) {
  switch (state) {
    case ResponseItem::State::in_progress:
      return "in_progress";
    case ResponseItem::State::incomplete:
      return "incomplete";
    case ResponseItem::State::completed:
      break;
  }
  return "completed";
}

void append_parts(JsonWriter& json, std::string_view type, const std::vector<std::string>& texts) {
  json.begin_array();
  for (const std::string& text : texts) {
    json.begin_object();
    json.key("type").text(type);
    json.key("text").text(text);
    json.end_object();
  }
  json.end_array();
}

void append_message(JsonWriter& json, const ResponseItem& item) {
  json.key("role").text(item.role);
  json.key("content");
  if (item.role != "assistant") {
    append_parts(json, "input_text", item.texts);
    return;
  }
  json.begin_array();
  for (std::size_t index = 0; index < item.texts.size(); index++) {
    json.begin_object();
    if (std::ranges::binary_search(item.refusals, index)) {
      json.key("type").text("refusal");
      json.key("refusal").text(item.texts[index]);
    } else {
      append_output_text(json, item, item.texts[index]);
    }
    json.end_object();
  }
  json.end_array();
}

// As chat joins the parts of a message.
std::string joined(const std::vector<std::string>& texts) {
  std::string whole;
  for (std::size_t index = 0; index < texts.size(); index++) {
    if (index > 0) whole += '\n';
    whole += texts[index];
  }
  return whole;
}

// Puts items together to chat messages.
class Turns {
 public:
  explicit Turns(std::size_t history) : history_(history) {}

  void add_instructions(std::string_view text) {
    if (!text.empty()) messages_.push_back({"system", std::string(text)});
  }
  ApiStatus add(const ResponseItem& item, std::size_t index);
  std::vector<ChatMessage> take() { return std::move(messages_); }

 private:
  // The assistant's message that is being put together.
  ChatMessage& turn() {
    if (!is_open_) messages_.push_back({"assistant"});
    is_open_ = true;
    return messages_.back();
  }
  void add_message(const ResponseItem& item);
  void add_call(const ResponseItem& item);
  ApiStatus add_output(const ResponseItem& item, std::size_t index);
  std::string param(std::size_t index, std::string_view member) const {
    if (index < history_) return "previous_response_id";
    return fmt::format("input[{}].{}", index - history_, member);
  }

  std::size_t history_;
  std::vector<ChatMessage> messages_;
  bool is_open_ = false;
  std::optional<Kind> last_;
  std::unordered_map<std::string, std::string> call_names_;  // by call id
};

void Turns::add_message(const ResponseItem& item) {
  if (item.role != "assistant") {
    is_open_ = false;
    messages_.push_back({item.role == "developer" ? "system" : item.role, joined(item.texts)});
    return;
  }
  if (last_ == Kind::message) is_open_ = false;
  turn().content += joined(item.texts);
}

void Turns::add_call(const ResponseItem& item) {
  const std::string name = shown_name(item.name_space, item.name);
  call_names_.insert_or_assign(item.call_id, name);
  turn().tool_calls.push_back({item.call_id, name, history_arguments(item.arguments)});
}

ApiStatus Turns::add_output(const ResponseItem& item, std::size_t index) {
  const auto call = call_names_.find(item.call_id);
  if (call == call_names_.end()) {
    const std::string name = param(index, "call_id");
    return refuse(400, "invalid_value",
                  fmt::format("{}: got \"{}\", expected the call_id of a function_call before it",
                              name, clipped(item.call_id)),
                  name);
  }
  is_open_ = false;
  ChatMessage message{"tool", joined(item.texts)};
  message.tool_call_id = item.call_id;
  message.name = call->second;
  messages_.push_back(std::move(message));
  return {};
}

ApiStatus Turns::add(const ResponseItem& item, std::size_t index) {
  switch (item.kind) {
    case Kind::message:
      add_message(item);
      break;
    case Kind::function_call:
      add_call(item);
      break;
    case Kind::function_call_output:
      TRY(add_output(item, index));
      break;
    case Kind::reasoning:
      turn().reasoning += joined(item.texts);
      break;
    case Kind::reference:
      break;  // resolved before
  }
  last_ = item.kind;
  return {};
}

}  // namespace

std::size_t ResponseItem::bytes() const {
  std::size_t sum = sizeof(ResponseItem) + id.size() + role.size() + call_id.size() +
                    name_space.size() + name.size() + arguments.size() + logprobs.size() +
                    refusals.size() * sizeof(std::size_t);
  for (const std::string& text : texts) sum += sizeof(std::string) + text.size();
  for (const std::string& text : summary) sum += sizeof(std::string) + text.size();
  return sum;
}

std::string_view item_prefix(ResponseItem::Kind kind) {
  switch (kind) {
    case Kind::function_call:
      return "fc";
    case Kind::function_call_output:
      return "fco";
    case Kind::reasoning:
      return "rs";
    case Kind::message:
    case Kind::reference:
      break;
  }
  return "msg";
}

void append_output_text(JsonWriter& json, const ResponseItem& item, std::string_view text) {
  json.key("type").text("output_text");
  json.key("annotations").begin_array().end_array();
  json.key("logprobs").begin_array().raw(item.logprobs).end_array();
  json.key("text").text(text);
}

void append_response_item(JsonWriter& json, const ResponseItem& item) {
  json.begin_object();
  json.key("id").text(item.id);
  switch (item.kind) {
    case Kind::message:
      json.key("type").text("message");
      append_message(json, item);
      break;
    case Kind::function_call:
      json.key("type").text("function_call");
      json.key("call_id").text(item.call_id);
      if (!item.name_space.empty()) json.key("namespace").text(item.name_space);
      json.key("name").text(item.name);
      json.key("arguments").text(item.arguments);
      break;
    case Kind::function_call_output:
      json.key("type").text("function_call_output");
      json.key("call_id").text(item.call_id);
      json.key("output");
      if (item.is_plain) {
        json.text(joined(item.texts));
      } else {
        append_parts(json, "input_text", item.texts);
      }
      break;
    case Kind::reasoning:
      json.key("type").text("reasoning");
      json.key("summary");
      append_parts(json, "summary_text", item.summary);
      json.key("content");
      append_parts(json, "reasoning_text", item.texts);
      break;
    case Kind::reference:
      json.key("type").text("item_reference");
      break;
  }
  json.key("status").text(state_name(item.state));
  json.end_object();
}

ApiResult<std::vector<ChatMessage>> response_messages(std::string_view instructions,
                                                      std::span<const ResponseItem> items,
                                                      std::size_t history) {
  Turns turns(history);
  turns.add_instructions(instructions);
  for (std::size_t index = 0; index < items.size(); index++) {
    TRY(turns.add(items[index], index));
  }
  return turns.take();
}

}  // namespace reprise
