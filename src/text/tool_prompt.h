// Tools for models whose template knows nothing of them: their definitions go into the system
// message, calls and results into plain messages, all in the words of the hermes format.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"

namespace reprise {

// Messages that any template renders: without tool calls, tool messages, ids and names. A call is
// written as hermes_call_text writes it, so that a call that the model wrote in this spelling
// renders to the same text as part of the history. `tools` are OpenAI's definitions; empty: no
// description of tools (the history may still hold calls).
std::vector<ChatMessage> messages_with_tools_as_text(std::vector<ChatMessage> messages,
                                                     const JsonArray& tools);

// <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>
std::string hermes_call_text(const ToolCall& call);

// JSON as Python's json.dumps(ensure_ascii=False) spells it, as `tojson` in templates does: a space
// after each comma and colon.
std::string spaced_json(const JsonValue& value);

}  // namespace reprise
