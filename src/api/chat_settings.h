// What a chat's prompt shows besides its messages, in the template's own words; and what a
// rendered prompt says about the thoughts that may follow.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "text/reply_parser.h"

namespace reprise {

// Where a chat's prompt ends.
enum class PromptEnd : std::uint8_t {
  reply,     // a reply has begun: behind the template's generation prompt
  messages,  // behind the last message's end of turn
  content,   // inside the last message, right behind its text: the reply goes on with it
};

struct ChatSettings {
  JsonArray tools = {};               // definitions, as OpenAI's clients send them
  JsonObject variables = {};          // "chat_template_kwargs"
  std::string reasoning_effort = {};  // none, minimal, low, medium, high ...; empty: not given
  PromptEnd end = PromptEnd::reply;
};

// The template's variables: what reasoning_effort means to the families that know thoughts, then
// the client's own. `thinking_name`: the template's switch (ReplyStyle); empty: it has none.
// Errors: invalid_argument for names that the prompt needs itself ("messages" ...), with the path.
Result<JsonObject> template_variables(const ChatSettings& settings, std::string_view thinking_name);

// The definitions with all that templates expect: a description and parameters, empty where the
// client gave none (some templates fail, or show "none", without them).
JsonArray template_tools(const JsonArray& definitions);

// Whether a prompt's end has begun the reply's thoughts.
enum class Thoughts : std::uint8_t {
  unopened,  // the reply may open them
  open,      // the reply begins inside them
  closed,    // there are none: the prompt's end closed them
};
// `end`: what the generation prompt added to the messages.
Thoughts thoughts_at(ReplyFormat format, std::string_view end);

}  // namespace reprise
