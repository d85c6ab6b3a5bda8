// A chat's history in other words, for templates that know less than OpenAI's messages can say.
#pragma once
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"

namespace reprise {

// Whether a message calls a function or answers a call.
bool has_calls(const std::vector<ChatMessage>& messages);

// The arguments of a call in a history, from their text; an empty one is {}. A text that is no JSON
// object (the reply ended inside it) becomes the one argument "malformed_arguments": clients send
// such a call back with what went wrong as its result, and go on.
JsonObject history_arguments(std::string_view text);

// Each call in a message of its own, its answer behind it: what a template that knows one call a
// message can show. The first call's message keeps the content and the thoughts. As many messages
// as before: there was nothing to split.
std::vector<ChatMessage> split_parallel_calls(const std::vector<ChatMessage>& messages);

// Messages that follow each other and have the same speaker as one, their texts joined by line
// feeds, as the parts of a message are: what a template that wants turns can show. The answers of
// tools stay apart. As many messages as before: there was nothing to join.
std::vector<ChatMessage> join_same_speakers(const std::vector<ChatMessage>& messages);

}  // namespace reprise
