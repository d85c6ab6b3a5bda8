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

// Two salts of one tenant, and one of another.
inline const CacheScope kA{"tenant", "a"};
inline const CacheScope kB{"tenant", "b"};
inline const CacheScope kC{"other", "c"};

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
  CacheScope scope;
  Tokens tokens;  // of the sequence so far
  SequenceCache cache;
  PromptCache::Path path;
};

class Bench {
 public:
  Bench(KvLayout layout, std::size_t budget, PromptCacheOptions options = {})
      : pool(std::move(layout), budget, {.extent_bytes = 16 << 10, .slack_extents = 0}),
        cache(pool, std::move(options), [this] { return now; }) {}

  Session open(const CacheScope& scope = kA) {
    return {scope, {}, SequenceCache(pool), cache.start(scope)};
  }

  // Looks `prompt` up and restores the session to what was found.
  PromptCache::Match look_up(Session& session, const Tokens& prompt, Position limit) {
    const PromptCache::Match match = cache.match(session.scope, prompt, limit);
    if (match.length > 0) {
      if (!cache.restore(session.scope, prompt, match, session.cache, session.path)) return match;
      session.tokens.assign(prompt.begin(), prompt.begin() + match.length);
    }
    cache.count_lookup(session.scope, prompt, match);
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
  PromptCache::Match request(const Tokens& tokens, const CacheScope& scope = kA,
                             bool has_mark = true) {
    Session session = open(scope);
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

  // A turn as the engine runs it: look up, forward the prompt, then the reply (`whole` goes on from
  // `prompt`), each end marked. Pinned at its end for `pin_ms`, where that is above 0.
  PromptCache::Match turn(const Tokens& prompt, const Tokens& whole, const CacheScope& scope = kA,
                          std::int64_t pin_ms = 0) {
    Session session = open(scope);
    const auto end = static_cast<Position>(prompt.size());
    const PromptCache::Match match = look_up(session, prompt, end - 1);
    is_right = is_right && holds_identities(session.cache, identities(prompt));
    is_right = go_on(session, prompt, true) && is_right;
    cache.mark(session.path, session.tokens, end - 3, MarkKind::history_boundary);
    cache.mark(session.path, session.tokens, end, MarkKind::prompt_end);
    session.cache.drop_unneeded();
    is_right = go_on(session, whole, true) && is_right;
    cache.mark(session.path, session.tokens, static_cast<Position>(whole.size()),
               MarkKind::completion_end);
    session.cache.drop_unneeded();
    if (pin_ms > 0) {
      is_pinned = cache.pin(session.path, session.tokens, static_cast<Position>(whole.size()),
                            now + pin_ms);
    }
    cache.check_invariants();
    return match;
  }

  // Gives up so many bytes of what is there.
  bool give_up(std::size_t bytes) {
    const bool is_there = cache.make_room(pool.available_bytes() + bytes);
    cache.check_invariants();
    return is_there;
  }
  // How much of the prompt would be resumed now.
  Position reach(const Tokens& prompt, const CacheScope& scope = kA) {
    return cache.match(scope, prompt, static_cast<Position>(prompt.size())).length;
  }

  std::int64_t now = 1000;
  bool is_pinned = false;  // by the last turn that asked for it
  PagePool pool;
  PromptCache cache;
  bool is_right = true;  // every restored sequence had the content of its tokens
};

}  // namespace reprise::test
