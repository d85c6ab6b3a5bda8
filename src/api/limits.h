// All bounds on what one request may ask, in one place. docs/api.md lists them; each refusal names
// what was got and the bound.
#pragma once
#include <cstddef>
#include <cstdint>

namespace reprise {

struct Limits {
  // ---- the body
  std::size_t body_bytes_max = std::size_t{16} << 20;
  std::size_t json_depth_max = 64;
  std::size_t messages_max = 4096;
  std::size_t content_parts_max = 4096;  // of one message
  std::size_t name_bytes_max = 1024;     // model, user, cache_salt, names of speakers, ids of calls
  std::size_t tool_calls_max = 128;      // of one message
  std::size_t prompts_max = 128;
  std::size_t prompts_bytes_max = std::size_t{4} << 20;  // of several prompts' texts together
  std::size_t tools_max = 128;
  std::size_t tool_bytes_max = std::size_t{256} << 10;     // of one tool, as JSON
  std::size_t schema_bytes_max = std::size_t{256} << 10;   // of a reply's schema, as JSON
  std::size_t template_bytes_max = std::size_t{64} << 10;  // of chat_template_kwargs, as JSON

  // ---- generation
  int choices_max = 128;  // of all prompts together
  std::size_t stops_max = 16;
  std::size_t stop_bytes_max = 4096;  // of each stop string
  std::size_t stop_token_ids_max = 1024;
  std::size_t logit_bias_max = 1024;
  std::size_t dry_breakers_max = 16;
  std::size_t dry_breaker_bytes_max = 256;
  int chat_top_logprobs_max = 20;
  int completion_logprobs_max = 5;
  std::int64_t top_k_max = 1'000'000;
  std::int64_t cache_pin_seconds_max = 86'400;
  std::int64_t timeout_ms_max = 86'400'000;  // the server's own limit where it has one
  // Of one request: choices, tokens of each, likeliest ones beside each and itself, multiplied.
  std::int64_t logprob_entries_max = 4'000'000;

  // ---- looking at the cache
  std::int64_t tree_runs_default = 1000;
  std::int64_t tree_runs_max = 10'000;

  // ---- what waits to be read
  std::size_t waiting_bodies_max = 256;
  std::size_t waiting_full_bodies_max = 4;  // so many of the largest size, in bytes together

  // ---- the responses store
  std::size_t stored_responses_max = 10'000;  // of all keys together
  std::size_t stored_response_bytes_max = std::size_t{64} << 20;
  std::int64_t stored_response_ms_max = 86'400'000;
  // Of conversations that wait to be kept with their replies, all requests together.
  std::size_t waiting_conversation_bytes_max = std::size_t{256} << 20;
  std::size_t item_references_max = 1024;  // of one request
  // Of a request's text, of its tool_choice and of all its tools, as JSON: every response object
  // shows them again.
  std::size_t response_echo_bytes_max = std::size_t{1} << 20;
};

// Marks of one prompt that the prompt cache is told: the newest turns' ends.
inline constexpr std::size_t kTurnEndsMax = 64;

}  // namespace reprise
