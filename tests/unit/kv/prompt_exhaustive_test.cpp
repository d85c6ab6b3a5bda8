// Every sequence of operations up to a depth over a pool of four pages and texts of two tokens: no
// answer is wrong, no page is lost, invariants hold after each.
#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include "unit/kv/prompt_cache_support.h"

namespace reprise {
namespace {

using test::Bench;
using test::kA;
using test::kC;
using test::kStandard;
using test::Session;
using test::tiny_layout;
using test::Tokens;
using test::window;

constexpr std::size_t kPage = 4096;  // of one layer in the tiny layout

// Half a block of one token for each letter.
Tokens text(const char* letters) {
  Tokens tokens;
  for (; *letters != 0; letters++) tokens.insert(tokens.end(), 32, *letters == 'a' ? 1 : 2);
  return tokens;
}

PromptCacheOptions options() {
  PromptCacheOptions options;
  options.min_prefix = 1;
  options.ttl_ms = 100;
  options.idle_salts_max = 1;
  options.pinned_bytes_per_tenant = 2 * kPage;
  options.pinned_bytes_max = 3 * kPage;
  return options;
}

// What runs: a cache, one session that stays open over operations, and what was published.
class Scene {
 public:
  explicit Scene(const std::vector<LayerSpan>& spans)
      : bench_(tiny_layout(spans), 4 * kPage, options()) {}

  static constexpr int kOperations = 11;

  void operate(int operation) {
    switch (operation) {
      case 0:
        return request("a", kA);
      case 1:
        return request("aab", kA);
      case 2:
        return request("ab", kA);
      case 3:
        return request("aa", kC);
      case 4:
        return request("bba", kC);
      case 5:  // a sequence that stays, and goes on where it stood
        if (open_.empty()) open_.push_back(bench_.open());
        return go_on(open_.back(), open_.back().tokens.size() < 64 ? text("aa") : text("aab"));
      case 6:
        open_.clear();
        return;
      case 7:
        if (open_.empty()) return;
        bench_.cache.pin(open_.back().path, open_.back().tokens,
                         static_cast<Position>(open_.back().tokens.size()), bench_.now + 50);
        return;
      case 8:
        bench_.now += 60;
        return bench_.cache.expire();
      case 9:
        bench_.cache.make_room(bench_.pool.available_bytes() + kPage);
        return;
      default:
        published_.erase(kA);
        bench_.cache.reset(kA);
    }
  }

  void check() const { bench_.cache.check_invariants(); }

  void end() {
    open_.clear();
    bench_.cache.reset(kA);
    bench_.cache.reset(kC);
    check();
    EXPECT_EQ(bench_.pool.used_bytes(), 0u);
  }
  std::uint64_t hits() const { return bench_.cache.stats().hits; }

 private:
  void request(const char* letters, const CacheScope& scope) {
    const Tokens tokens = text(letters);
    Session session = bench_.open(scope);
    const auto limit = static_cast<Position>(tokens.size()) - 1;
    const PromptCache::Match match = bench_.look_up(session, tokens, limit);
    Position common = 0;  // the naive twin: of everything that was ever published
    for (const Tokens& other : published_[scope]) {
      const auto end = std::mismatch(other.begin(), other.end(), tokens.begin(), tokens.end());
      common = std::max<Position>(common, end.first - other.begin());
    }
    EXPECT_LE(match.common, common);
    EXPECT_LE(match.length, std::min(match.common, limit));
    EXPECT_EQ(session.cache.offset(), match.length);
    EXPECT_TRUE(test::holds_identities(session.cache, test::identities(tokens)));
    go_on(session, tokens);
  }

  void go_on(Session& session, const Tokens& tokens) {
    if (session.tokens.size() >= tokens.size()) return;
    if (!bench_.go_on(session, tokens, true)) return;  // no room beside what runs
    published_[session.scope].push_back(tokens);
    bench_.cache.mark(session.path, session.tokens, static_cast<Position>(tokens.size()),
                      MarkKind::prompt_end);
    session.cache.drop_unneeded();
    EXPECT_TRUE(test::holds_identities(session.cache, test::identities(tokens)));
  }

  Bench bench_;
  std::vector<Session> open_;
  std::map<CacheScope, std::vector<Tokens>> published_;
};

// REPRISE_MODEL_DEPTH: longer sequences.
TEST(PromptExhaustive, EverySequenceOfOperations) {
  const char* deeper = std::getenv("REPRISE_MODEL_DEPTH");
  const int depth = deeper == nullptr ? 4 : std::atoi(deeper);
  std::uint64_t hits = 0;
  for (const std::vector<LayerSpan>& spans :
       {std::vector<LayerSpan>{kStandard}, std::vector<LayerSpan>{kStandard, window(8)}}) {
    std::vector<int> operations(static_cast<std::size_t>(depth), 0);
    while (true) {
      Scene run(spans);
      for (const int operation : operations) {
        run.operate(operation);
        run.check();
      }
      hits += run.hits();
      run.end();
      if (HasFailure()) {
        for (const int operation : operations) ADD_FAILURE() << "operation " << operation;
        return;
      }
      std::size_t next = 0;
      while (next < operations.size() && ++operations[next] == Scene::kOperations)
        operations[next++] = 0;
      if (next == operations.size()) break;
    }
  }
  EXPECT_GT(hits, 1000u);  // not a vacuous pass
}

}  // namespace
}  // namespace reprise
