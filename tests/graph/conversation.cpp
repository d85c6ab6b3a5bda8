// Rendering: the messages one after another, then the generation prompt.
#include "graph/conversation.h"

namespace reprise::testing {

RenderedPrompt render(const ChatFormat& format, const Conversation& conversation) {
  RenderedPrompt prompt;
  const auto add = [&](const std::vector<TokenId>& tokens) {
    prompt.tokens.insert(prompt.tokens.end(), tokens.begin(), tokens.end());
  };
  const auto length = [&] { return static_cast<Position>(prompt.tokens.size()); };
  add(format.opening);
  for (const Message& message : conversation) {
    add(message.is_reply ? format.reply_head : format.user_head);
    add(message.body);
    add(format.tail);
    prompt.turn_ends.push_back(length());
  }
  add(format.reply_head);
  prompt.history_boundary = length();
  add(format.scaffold);
  return prompt;
}

}  // namespace reprise::testing
