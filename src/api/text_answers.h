// Answers about texts and tokens that need no generation, in llama-server's forms.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "api/openai.h"
#include "api/prepare.h"
#include "api/prompt_writer.h"

namespace reprise {

struct TextAnswer {
  std::string body = {};
  std::vector<std::string> unknown = {};  // fields of the request that were ignored, for the log
};

// Errors of all three: of the request, 404 model_not_found among them; 400 for a template's no.

// POST /tokenize: {"tokens":[1,2]}, with pieces {"tokens":[{"id":1,"piece":"a"}]}; a piece that is
// not UTF-8 by itself is a list of its bytes.
ApiResult<TextAnswer> tokenize_body(const PrepareContext& context, std::string_view body);
// POST /detokenize: {"content":"..."}.
ApiResult<TextAnswer> detokenize_body(const PrepareContext& context, std::string_view body);
// The tokens of the prompt that a chat becomes. Errors: 400 for a template's no.
ApiResult<std::vector<TokenId>> chat_tokens(const PromptWriter& prompts, ChatRequest request);
// POST /apply-template with a chat request, which is checked like one: {"prompt":"..."}.
ApiResult<TextAnswer> apply_template_body(const PrepareContext& context, std::string_view body);

}  // namespace reprise
