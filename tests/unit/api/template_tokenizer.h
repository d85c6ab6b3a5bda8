// A tokenizer of the tiny vocabulary and every special token that the families' templates write.
#pragma once
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/tiny_vocabulary.h"
#include "text/tokenizer.h"

namespace reprise::testing {

// Every special token that the families' templates write.
inline std::vector<std::string> template_specials() {
  return {"<|im_start|>",
          "<|im_end|>",
          "<|begin_of_text|>",
          "<|start_header_id|>",
          "<|end_header_id|>",
          "<|eot_id|>",
          "<|eom_id|>",
          "<|header_start|>",
          "<|header_end|>",
          "<|eot|>",
          "<|turn>",
          "<turn|>",
          "<|channel>",
          "<channel|>",
          "<|start|>",
          "<|message|>",
          "<|eom|>",
          "</s>",
          "[INST]",
          "[/INST]",
          "<think>",
          "</think>",
          "<tool_call>",
          "</tool_call>",
          "<|think|>",
          "<|tool>",
          "<tool|>",
          "<|tool_call>",
          "<tool_call|>",
          "<|tool_response>",
          "<tool_response|>",
          "<|\"|>",
          "<|python_start|>",
          "<|python_end|>"};
}

inline Tokenizer template_tokenizer() {
  TinyVocabulary tiny = tiny_vocabulary();
  Vocabulary vocabulary;
  for (const std::string& special : template_specials()) {
    tiny.tokens.push_back(special);
    tiny.types.push_back(3);
  }
  for (std::size_t id = 0; id < tiny.tokens.size(); id++) {
    vocabulary.tokens.emplace_back(tiny.tokens[id]);
    vocabulary.types.push_back(static_cast<TokenType>(tiny.types[id]));
    vocabulary.scores.push_back(-static_cast<float>(id));
  }
  vocabulary.bos = kTinyBos;
  vocabulary.eos = kTinyEos;
  vocabulary.unknown = kTinyUnknown;
  Result<Tokenizer> tokenizer = Tokenizer::from_vocabulary(vocabulary);
  EXPECT_TRUE(tokenizer);
  return std::move(*tokenizer);
}

}  // namespace reprise::testing
