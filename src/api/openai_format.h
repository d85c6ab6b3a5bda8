// What OpenAI's replies have in common, written as JSON; the forms are put together by the writers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json_writer.h"
#include "base/types.h"
#include "engine/request.h"

namespace reprise {

enum class ReplyKind : std::uint8_t { chat, completion };

// What every object of one reply repeats.
struct ReplyIdentity {
  std::string id;
  std::string model;
  std::string fingerprint;   // system_fingerprint
  std::int64_t created = 0;  // seconds since 1970
};

// Begins an object: id, object, created, model, system_fingerprint.
void begin_reply(JsonWriter& json, const ReplyIdentity& identity, std::string_view object);

// What follows the text in a choice of any form.
struct ChoiceTail {
  std::string_view logprobs = "null";   // a JSON value
  std::string_view finish_reason = {};  // empty: null
  // Written when set (return_token_ids).
  const std::vector<TokenId>* prompt_token_ids = nullptr;
  const std::vector<TokenId>* token_ids = nullptr;
};
// Up to the choice's closing brace.
void end_choice(JsonWriter& json, const ChoiceTail& tail);

// Whether the usage tells what the prompt cache did: prompt_tokens_details.cache, an object.
enum class CacheDetails : bool { no, yes };

// The object {"result","reason","matched","diverged_at","retokenised_at","pinned"}, as the value of
// a key that was written.
void append_cache_details(JsonWriter& json, const Usage& usage);

// "usage": {...}. `reasoning_tokens`: for completion_tokens_details, which completions do not have.
void append_usage(JsonWriter& json, const Usage& usage, CacheDetails details,
                  std::optional<Position> reasoning_tokens);

void append_token_ids(JsonWriter& json, const std::vector<TokenId>& ids);

// "data: ...\n\n". `data` is one line.
std::string server_sent_event(std::string_view data);

// The value of x-reprise-cache: "hit; matched=N" or "miss; reason=...; diverged_at=N", and
// "; retokenised_at=N" where the prompt repeats a reply in other tokens.
std::string cache_header(const Usage& usage);

// "fp_<12 hex digits>-n<numeric contract version>".
std::string system_fingerprint(std::string_view model_fingerprint);

// "call_<24 hex digits>": the same for the same reply, choice and place, and for no others.
std::string tool_call_id(std::string_view reply_id, int choice, std::size_t call);

}  // namespace reprise
