// Conversations as a chat client keeps them, and their prompts as a chat template renders them.
#pragma once
#include <vector>

#include "base/types.h"

namespace reprise::testing {

struct Message {
  bool is_reply = false;
  std::vector<TokenId> body;
};

using Conversation = std::vector<Message>;

// The template: opening, then head + body + tail for each message, then the reply's head and a
// scaffold that only the generation prompt has.
struct ChatFormat {
  std::vector<TokenId> opening, user_head, reply_head, tail, scaffold;
};

struct RenderedPrompt {
  std::vector<TokenId> tokens;
  Position history_boundary = 0;    // the next turn's prompt surely begins with so many
  std::vector<Position> turn_ends;  // one a message
};

RenderedPrompt render(const ChatFormat& format, const Conversation& conversation);

}  // namespace reprise::testing
