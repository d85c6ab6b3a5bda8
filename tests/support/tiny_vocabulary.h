// The small vocabulary of all tiny models: special tokens, every byte, letters and pairs of
// letters; as GGUF keys and as a tokenizer.json that gives the same ids.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"
#include "support/gguf_writer.h"

namespace reprise::testing {

inline constexpr int kTinyVocabulary = 320;
inline constexpr TokenId kTinyEos = 1;
inline constexpr TokenId kTinyBos = 2;
inline constexpr TokenId kTinyUnknown = 3;
inline constexpr TokenId kTinyEndOfTurn = 5;
inline constexpr TokenId kTinyFirstByte = 6;  // "<0x00>"

// Turns of any roles, each between <start_of_turn> and <end_of_turn>.
inline constexpr const char* kTinyChatTemplate =
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m.role }}\n"
    "{{ m.content }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>assistant\n{% endif %}";

struct TinyVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;  // GGUF's numbers: 1 normal, 2 unknown, 3 control, 6 byte
};
TinyVocabulary tiny_vocabulary();

// The tokenizer.ggml keys. Scores fall with the id, so earlier tokens merge first.
void add_tiny_vocabulary(GgufWriter& writer);

// The same as Hugging Face files.
std::string tiny_tokenizer_json();
std::string tiny_tokenizer_config_json();   // with kTinyChatTemplate
std::string tiny_generation_config_json();  // stop at <eos> and <end_of_turn>

}  // namespace reprise::testing
