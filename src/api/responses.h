// OpenAI's Responses API as the desk calls it: POST /v1/responses from bytes to the engine's
// request and the writer of its reply; GET and DELETE of what is kept.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/openai_format.h"
#include "api/prepare.h"
#include "api/reply_outlet.h"
#include "api/reply_writer.h"
#include "api/responses_object.h"
#include "api/responses_store.h"
#include "api/text_answers.h"
#include "text/tokenizer.h"

namespace reprise {

// What the engine shall do, and all that the reply needs beside.
struct PreparedResponse {
  PreparedGeneration generation;  // one choice
  ResponsePlan plan;
};

// Prepare thread. Errors: 400 with the field's path; previous_response_not_found (400); 429 while
// too much waits to be kept; what prepare_chat says.
ApiResult<PreparedResponse> prepare_response(const PrepareContext& context, std::string_view body,
                                             ResponsesStore& store);

// Prepare thread. POST /v1/responses/input_tokens, with the same body:
// {"object":"response.input_tokens","input_tokens":N}. Nothing is kept. Errors: as
// prepare_response.
ApiResult<TextAnswer> response_tokens_body(const PrepareContext& context, std::string_view body,
                                           const ResponsesStore& store);

// The writer of the reply, whole or streamed as asked; keeps the response in the store before the
// client hears of its end. `digits` are unique hexadecimal digits that the ids are made of
// ("resp_DIGITS"). The tokenizer and the store must outlive it.
struct ResponseIdentity {
  std::string digits;
  std::string model;
  std::int64_t created = 0;  // seconds since 1970
};
std::unique_ptr<ReplyWriter> make_response_writer(ResponsePlan plan, ResponseIdentity identity,
                                                  const Tokenizer& tokenizer, ResponsesStore& store,
                                                  ReplyOutlet outlet);

// I/O thread: bodies of the replies to GET and DELETE /v1/responses/{id} and
// GET /v1/responses/{id}/input_items. `tenant` is the name of the key, `query` the target's.
// Errors: 404 response_not_found, of other tenants' responses too; 400 for a query's parameter.
ApiResult<std::string> response_body(const ResponsesStore& store, std::string_view tenant,
                                     std::string_view id, std::string_view query);
ApiResult<std::string> delete_response(ResponsesStore& store, std::string_view tenant,
                                       std::string_view id);
ApiResult<std::string> input_items_body(const ResponsesStore& store, std::string_view tenant,
                                        std::string_view id, std::string_view query);

}  // namespace reprise
