// From a request's bytes to what the engine can run: parsing, template, tokens, limits.
#pragma once
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "api/bundle.h"
#include "api/openai.h"
#include "api/openai_format.h"
#include "engine/request.h"
#include "text/reply_parser.h"

namespace reprise {

// What the desk knows and every request is checked against.
struct PrepareContext {
  const Bundle* bundle = nullptr;
  std::string_view model_alias;
  std::string_view tenant;  // name of the key that the request was let in with; empty: no keys
  Position context_length = 0;
  Position fitting_length = 0;  // what the KV budget holds, at most the context length
  Limits limits;
  std::int64_t request_timeout_ms = 0;  // of requests that name none; 0: none
  // Replies that may run and wait together: more in one request never fit.
  std::size_t together_max = std::numeric_limits<std::size_t>::max();
};

// How the text of a reply is to be read.
struct ReplyReading {
  ReplyFormat format = ReplyFormat::plain;
  ReplyParserOptions parser;
};

struct PreparedGeneration {
  GenerationFields fields;  // as parsed; the seed drawn when the client gave none
  // All but the sinks. One a choice: the choices of the first prompt, then of the next.
  std::vector<GenerationRequest> generations;
  ReplyReading reading;
  std::vector<std::string> echoes;  // the prompts' texts, one a prompt, when they begin the replies
};

// Errors: 404 model_not_found; 400 context_length_exceeded with both numbers; what the template
// says against the messages; invalid_value with a token's field and the vocabulary; what the
// grammar says against a schema (param: response_format, or tools with the index); more choices,
// text or log probabilities than Limits has. What can be known before a prompt becomes tokens is
// refused before, each prompt's length before the next one: nobody waits for what is in vain.
ApiResult<PreparedGeneration> prepare_chat(const PrepareContext& context, ChatRequest request);
ApiResult<PreparedGeneration> prepare_completion(const PrepareContext& context,
                                                 CompletionRequest request);

// What the request says about its prompt besides the messages. The tools stay in it, too.
ChatSettings take_settings(ChatRequest& request);

// 404 model_not_found for any name but the alias.
ApiStatus check_model(std::string_view model, std::string_view alias);

// Trouble of the rooms below in the client's terms.
ApiError to_api_error(const Error& error);

}  // namespace reprise
