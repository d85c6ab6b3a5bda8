// Whether two lists of tokens say the same: a client sends a reply back as text, and the text may
// be tokenised otherwise than it was sampled.
#pragma once
#include <span>

#include "base/types.h"
#include "text/tokenizer.h"

namespace reprise {

// Whether a prompt goes on with the text of a reply. Both lists begin at the place where they part,
// and either may be cut off anywhere, also inside a character: one text, as bytes, must begin with
// the other, and the shorter must hold at least the first token of the reply that has text.
// A special token inside the reply has no text (the client was shown none); in the prompt it stands
// for its spelling, so that a message that ends early is not taken for the reply.
bool is_same_text(const Tokenizer& tokenizer, std::span<const TokenId> reply,
                  std::span<const TokenId> prompt);

}  // namespace reprise
