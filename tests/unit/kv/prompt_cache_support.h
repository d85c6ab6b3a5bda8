// A small engine around the prompt cache: sessions that look up, restore, go on, publish.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kv/prompt_cache.h"
#include "unit/kv/kv_test_support.h"

namespace reprise::test {

using Tokens = std::vector<TokenId>;

// Tokens 1, 2, 3 ... (all different), and a string that leaves them at `at`.
inline Tokens counting(int length, TokenId first = 1) {
  Tokens tokens;
  for (int i = 0; i < length; i++) tokens.push_back(first + i);
  return tokens;
}
inline Tokens branch(Tokens tokens, int at, int length, TokenId first) {
  tokens.resize(static_cast<std::size_t>(at));
  for (const TokenId token : counting(length - at, first)) tokens.push_back(token);
  return tokens;
}

struct Session {
  std::string salt;
  Tokens tokens;  // of the sequence so far
  SequenceCache cache;
  PromptCache::Path path;
};

class Bench {
 public:
  Bench(KvLayout layout, std::size_t budget, PromptCacheOptions options = {})
      : pool(std::move(layout), budget), cache(pool, std::move(options), [this] { return now; }) {}

  Session open(const std::string& salt = "a") {
    return {salt, {}, SequenceCache(pool), cache.start(salt)};
  }

  // Looks `prompt` up and restores the session to what was found.
  PromptCache::Match look_up(Session& session, const Tokens& prompt, Position limit) {
    const PromptCache::Match match = cache.match(session.salt, prompt, limit);
    if (match.length > 0) {
      if (!cache.restore(session.salt, prompt, match, session.cache, session.path)) return match;
      session.tokens.assign(prompt.begin(), prompt.begin() + match.length);
    }
    cache.count_lookup(session.salt, match);
    return match;
  }

  // Forwards the tokens that are missing and publishes. False when there is no room.
  bool go_on(Session& session, const Tokens& tokens, bool with_tail) {
    const auto length = static_cast<Position>(tokens.size());
    const std::size_t bytes = session.cache.bytes_to_reserve(length);
    if (bytes > pool.available_bytes() && !cache.make_room(bytes)) return false;
    if (!extend(session.cache, identities(tokens), length)) return false;
    session.tokens = tokens;
    cache.publish(session.path, session.tokens, session.cache, with_tail);
    return true;
  }

  // A whole request: look up, forward all, publish with its end, marked. Returns the lookup.
  PromptCache::Match request(const Tokens& tokens, const std::string& salt = "a",
                             bool has_mark = true) {
    Session session = open(salt);
    const PromptCache::Match match =
        look_up(session, tokens, static_cast<Position>(tokens.size()) - 1);
    is_right = is_right && holds_identities(session.cache, identities(tokens));
    is_right = go_on(session, tokens, true) && is_right;
    if (has_mark) {
      cache.mark(session.path, session.tokens, static_cast<Position>(tokens.size()),
                 MarkKind::completion_end);
    }
    session.cache.drop_unneeded();
    cache.check_invariants();
    return match;
  }

  std::int64_t now = 1000;
  PagePool pool;
  PromptCache cache;
  bool is_right = true;  // every restored sequence had the content of its tokens
};

}  // namespace reprise::test
