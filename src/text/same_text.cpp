// Texts compared byte by byte.
#include "text/same_text.h"

#include <algorithm>
#include <string>

namespace reprise {

bool is_same_text(const Tokenizer& tokenizer, std::span<const TokenId> reply,
                  std::span<const TokenId> prompt) {
  std::string said, asked;
  std::size_t first = 0;  // bytes of the first token with text
  for (const TokenId id : reply) {
    if (tokenizer.is_special(id)) continue;
    said += tokenizer.token_bytes(id);
    if (first == 0) first = said.size();
  }
  // No byte behind the reply's end matters.
  for (const TokenId id : prompt) {
    if (asked.size() >= said.size()) break;
    asked += tokenizer.token_bytes(id);
  }
  const std::size_t shared = std::min(said.size(), asked.size());
  return first > 0 && shared >= first && said.compare(0, shared, asked, 0, shared) == 0;
}

}  // namespace reprise
