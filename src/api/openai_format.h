// OpenAI's replies, written as JSON: whole, and in chunks of a stream.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "engine/request.h"

namespace reprise {

enum class ReplyKind : std::uint8_t { chat, completion };

// What every object of one reply repeats.
struct ReplyIdentity {
  ReplyKind kind = ReplyKind::chat;
  std::string id;
  std::string model;
  std::string fingerprint;   // system_fingerprint
  std::int64_t created = 0;  // seconds since 1970
};

struct ReplyChoice {
  std::string_view text;
  std::string_view finish_reason;      // empty: null
  std::string_view logprobs = "null";  // a JSON value
  // Written when set (return_token_ids).
  const std::vector<TokenId>* token_ids = nullptr;
  const std::vector<TokenId>* prompt_token_ids = nullptr;
};

// Whether the usage tells what the prompt cache did: prompt_tokens_details.cache, an object.
enum class CacheDetails : bool { no, yes };

// chat.completion or text_completion.
std::string format_reply(const ReplyIdentity& identity, const ReplyChoice& choice,
                         const Usage& usage, CacheDetails details = CacheDetails::no);

// How a chunk's delta looks: {"role","content":""}, {"content"}, {}. Completions know only
// `content`.
enum class ChunkPart : std::uint8_t { role, content, finish };

// chat.completion.chunk or text_completion. With `include_usage` every chunk says "usage": null.
std::string format_chunk(const ReplyIdentity& identity, ChunkPart part, const ReplyChoice& choice,
                         bool include_usage);
// The chunk without choices that carries the usage.
std::string format_usage_chunk(const ReplyIdentity& identity, const Usage& usage,
                               CacheDetails details = CacheDetails::no);

// "data: ...\n\n". `data` is one line.
std::string server_sent_event(std::string_view data);

// The value of x-reprise-cache: "hit; matched=N" or "miss; reason=...; diverged_at=N", and
// "; retokenised_at=N" where the prompt repeats a reply in other tokens.
std::string cache_header(const Usage& usage);

// "fp_<12 hex digits>-n<numeric contract version>".
std::string system_fingerprint(std::string_view model_fingerprint);

}  // namespace reprise
