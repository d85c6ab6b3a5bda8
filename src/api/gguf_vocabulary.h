// What a GGUF file says about its tokenizer and its end-of-sequence tokens.
#pragma once
#include <vector>

#include "base/error.h"
#include "model/gguf.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace reprise {

// The keys tokenizer.ggml.*; views point into the file. Where keys are absent, llama.cpp's
// defaults. Errors: not_found (no tokens), corrupt, unsupported (another tokenizer model), naming
// the key.
Result<Vocabulary> read_vocabulary(const GgufFile& file);

// Tokens that end a reply: the eos and eot keys, and control tokens whose text is known to end
// turns. Ascending, each once. Errors: corrupt, naming the key.
Result<std::vector<TokenId>> read_stop_ids(const GgufFile& file, const Vocabulary& vocabulary);

}  // namespace reprise
