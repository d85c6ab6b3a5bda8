// The forms of replies: one maker for each, whole or streamed. All are made from the same deltas,
// so that the chunks of a stream put together are the whole reply.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "api/openai_format.h"
#include "api/reply_outlet.h"
#include "api/reply_writer.h"
#include "base/types.h"
#include "text/tokenizer.h"

namespace reprise {

// What a writer knows of the request. Choices count through: those of the first prompt come first.
struct ReplyPlan {
  ReplyIdentity identity;
  std::size_t prompts = 1;
  std::size_t choices = 1;  // of each prompt
  bool include_usage = false;
  CacheDetails cache_details = CacheDetails::no;
  bool logprobs = false;
  bool return_token_ids = false;
  // The prompts' ids, where the reply repeats them: return_token_ids, echo with logprobs.
  std::vector<std::vector<TokenId>> prompt_ids;
  std::vector<std::string> echoes;         // what the texts begin with, one a prompt; or none
  std::string generation_settings = "{}";  // JSON, for llama-server's form
  std::size_t choice_count() const { return prompts * choices; }
};

// chat.completion; chat.completion.chunk. The tokenizer must outlive the writers.
std::unique_ptr<ReplyWriter> make_chat_whole(ReplyPlan plan, ReplyOutlet outlet,
                                             const Tokenizer& tokenizer);
std::unique_ptr<ReplyWriter> make_chat_stream(ReplyPlan plan, ReplyOutlet outlet,
                                              const Tokenizer& tokenizer);
// text_completion.
std::unique_ptr<ReplyWriter> make_completion_whole(ReplyPlan plan, ReplyOutlet outlet,
                                                   const Tokenizer& tokenizer);
std::unique_ptr<ReplyWriter> make_completion_stream(ReplyPlan plan, ReplyOutlet outlet,
                                                    const Tokenizer& tokenizer);
// llama-server's /completion. Several choices are a list of whole replies.
std::unique_ptr<ReplyWriter> make_llama_whole(ReplyPlan plan, ReplyOutlet outlet,
                                              const Tokenizer& tokenizer);
std::unique_ptr<ReplyWriter> make_llama_stream(ReplyPlan plan, ReplyOutlet outlet,
                                               const Tokenizer& tokenizer);

}  // namespace reprise
