// Calls in a chat's history, for templates that know less than OpenAI's messages can say.
#pragma once
#include <vector>

#include "text/chat_template.h"

namespace reprise {

// Whether a message calls a function or answers a call.
bool has_calls(const std::vector<ChatMessage>& messages);
// Whether a message calls more than one.
bool has_parallel_calls(const std::vector<ChatMessage>& messages);

// Each call in a message of its own, its answer behind it: what a template that knows one call a
// message can show. The first call's message keeps the content and the thoughts.
std::vector<ChatMessage> split_parallel_calls(const std::vector<ChatMessage>& messages);

}  // namespace reprise
