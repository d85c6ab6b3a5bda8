// Answers about texts and tokens that need no generation, in llama-server's forms.
#pragma once
#include <string>
#include <string_view>

#include "api/api_error.h"
#include "api/bundle.h"
#include "api/limits.h"

namespace reprise {

// POST /tokenize: {"tokens":[1,2]}, with pieces {"tokens":[{"id":1,"piece":"a"}]}; a piece that is
// not UTF-8 by itself is a list of its bytes. Errors: of the request; 400 for a template's no.
ApiResult<std::string> tokenize_body(const Bundle& bundle, const Limits& limits,
                                     std::string_view body);
// POST /detokenize: {"content":"..."}.
ApiResult<std::string> detokenize_body(const Bundle& bundle, const Limits& limits,
                                       std::string_view body);
// POST /apply-template with a chat request: {"prompt":"..."}.
ApiResult<std::string> apply_template_body(const Bundle& bundle, const Limits& limits,
                                           std::string_view body);

}  // namespace reprise
