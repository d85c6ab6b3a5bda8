// Items of OpenAI's Responses API: what a conversation consists of there, and the chat messages
// that they stand for.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "api/json_writer.h"
#include "text/chat_template.h"

namespace reprise {

struct ResponseItem {
  enum class Kind : std::uint8_t {
    message,
    function_call,
    function_call_output,
    reasoning,
    reference,  // only in a request: an item of a kept response, by its id
  };
  enum class State : std::uint8_t { in_progress, completed, incomplete };
  Kind kind = Kind::message;
  State state = State::completed;
  std::string id = {};
  std::string role = {};                   // message: user, assistant, system, developer
  std::vector<std::string> texts = {};     // the parts of message, output and reasoning
  std::vector<std::size_t> refusals = {};  // message of an assistant: which texts are refusals
  std::vector<std::string> summary = {};   // reasoning
  bool is_plain = false;                   // output: one text, not a list of parts
  std::string call_id = {};                // function_call, function_call_output
  std::string name_space = {};             // function_call; empty: none
  std::string name = {};                   // function_call
  std::string arguments = {};              // function_call: JSON, unless cut off
  std::string logprobs = {};  // message of ours, until it is kept: items of a JSON list

  std::size_t bytes() const;  // of memory, roughly
};

// "msg", "fc", "fco", "rs".
std::string_view item_prefix(ResponseItem::Kind kind);

// The members of a part that is a message's text.
void append_output_text(JsonWriter& json, const ResponseItem& item, std::string_view text);
// The item as replies and lists show it.
void append_response_item(JsonWriter& json, const ResponseItem& item);

// The conversation as chat messages; the first `history` items are those of the previous response.
// Thoughts, text and calls that follow each other are one message of the assistant, as a chat
// client writes its turn, so that both give the same prompt. Errors: 400 for an output of a call
// that is not there.
ApiResult<std::vector<ChatMessage>> response_messages(std::string_view instructions,
                                                      std::span<const ResponseItem> items,
                                                      std::size_t history);

}  // namespace reprise
