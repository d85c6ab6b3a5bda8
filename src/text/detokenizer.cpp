// Detokenizer: token bytes in, whole characters out.
#include "text/detokenizer.h"

#include "text/utf8.h"

namespace reprise {

std::string Detokenizer::push(TokenId id) {
  if (!tokenizer_->is_special(id)) pending_ += tokenizer_->token_bytes(id);
  return take_utf8(pending_);
}

std::string Detokenizer::finish() {
  // What is left is the beginning of one character.
  std::string text = take_utf8(pending_);
  if (!pending_.empty()) text += kReplacementCharacter;
  pending_.clear();
  return text;
}

}  // namespace reprise
