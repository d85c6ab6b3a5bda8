// Random conversations against a naive twin: every restored sequence must have the content of its
// own tokens, lookups must find what was published, invariants hold after every operation.
#include <algorithm>
#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include "unit/kv/prompt_cache_support.h"

namespace reprise {
namespace {

using test::Bench;
using test::chunk;
using test::holds_identities;
using test::kStandard;
using test::Random;
using test::Session;
using test::tiny_layout;
using test::Tokens;
using test::window;

struct World {
  const char* name;
  std::vector<LayerSpan> spans;
  std::size_t budget_pages;
  CacheStore store = CacheStore::reference;
  bool gives_up = true;  // the budget is small, and room is made, entries expire
  int alphabet = 2;      // more: many entries that leave one block at the same place
};

class Model {
 public:
  Model(const World& world, std::uint64_t seed)
      : random_(seed),
        world_(world),
        bench_(tiny_layout(world.spans), world.budget_pages * 4096, options_of(world)) {}

  void run(int operations) {
    for (int i = 0; i < operations; i++) {
      step();
      bench_.cache.check_invariants();
      if (testing::Test::HasFailure()) {
        ADD_FAILURE() << "operation " << i;
        return;
      }
    }
    sessions_.clear();
    for (const std::string salt : {"a", "b"}) bench_.cache.reset(salt);
    EXPECT_EQ(bench_.pool.used_bytes(), 0u);
    const auto stats = bench_.cache.stats();
    EXPECT_GT(stats.hits, static_cast<std::uint64_t>(operations / 40));  // not a vacuous pass
    EXPECT_EQ(stats.bytes, 0u);
    EXPECT_GE(stats.evictions_lru + stats.window_pages_dropped, world_.gives_up ? 20u : 0u);
  }

 private:
  static PromptCacheOptions options_of(const World& world) {
    PromptCacheOptions options;
    options.store = world.store;
    options.min_prefix = 4;
    options.ttl_ms = 500;
    options.ghosts_per_salt = 50;
    options.idle_salts_max = 1;  // of two
    return options;
  }

  // A prompt that begins like something earlier, most of the time.
  Tokens prompt() {
    Tokens tokens;
    if (!said_.empty() && !random_.chance(10)) {
      tokens = said_[pick(said_.size())];
      if (random_.chance(60))
        tokens.resize(
            static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(tokens.size()) + 1)));
    }
    append(tokens, 1 + random_.below(random_.chance(30) ? 130 : 12));
    if (tokens.size() > 420) tokens.resize(420);
    return tokens;
  }
  void append(Tokens& tokens, std::int64_t count) {
    for (; count > 0; count--)
      tokens.push_back(static_cast<TokenId>(random_.below(world_.alphabet)));
  }
  std::size_t pick(std::size_t count) {
    return static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(count)));
  }

  void step() {
    bench_.now += random_.below(4);
    const std::int64_t action = random_.below(100);
    if (sessions_.empty() || (action < 25 && sessions_.size() < 5)) {
      begin();
    } else if (action < 65) {
      go_on(pick(sessions_.size()));
    } else if (action < 75) {
      sessions_.erase(sessions_.begin() + static_cast<std::ptrdiff_t>(pick(sessions_.size())));
    } else if (action < 82) {
      again(sessions_[pick(sessions_.size())]);
    } else if (action < 88) {
      go_back(sessions_[pick(sessions_.size())]);
    } else if (action < 99) {
      if (world_.gives_up) give_up();
    } else {
      reset(random_.chance(50) ? "a" : "b");
    }
    if (said_.size() > 40) said_.erase(said_.begin());
  }

  void begin() {
    sessions_.push_back(bench_.open(random_.chance(80) ? "a" : "b"));
    const Tokens tokens = prompt();
    look_up(sessions_.back(), tokens);
    go_on(sessions_.size() - 1, &tokens);
  }

  // What the twin knows: the longest common prefix with anything ever published under the salt.
  Position published_common(const std::string& salt, const Tokens& tokens) const {
    Position longest = 0;
    for (const auto& [owner, text] : published_) {
      if (owner != salt) continue;
      const auto end = std::mismatch(text.begin(), text.end(), tokens.begin(), tokens.end());
      longest = std::max<Position>(longest, end.first - text.begin());
    }
    return longest;
  }

  void look_up(Session& session, const Tokens& tokens) {
    const Position limit = static_cast<Position>(tokens.size()) - 1;
    const Position common = published_common(session.salt, tokens);
    const PromptCache::Match match = bench_.look_up(session, tokens, limit);
    EXPECT_LE(match.length, limit);
    EXPECT_LE(match.length, match.common);
    EXPECT_LE(match.common, common);
    EXPECT_GE(match.stored, match.common);
    EXPECT_EQ(match.miss.has_value(), match.length == 0);
    if (match.length > 0) {
      EXPECT_GE(match.length, 4);
      EXPECT_EQ(session.cache.offset(), match.length);
      EXPECT_EQ(session.path.published(), match.length / 64 * 64);
      EXPECT_TRUE(holds_identities(session.cache, test::identities(tokens)));
    }
    if (world_.gives_up || world_.store == CacheStore::materialised) return;
    // Nothing is ever lost: the answer is exact.
    EXPECT_EQ(match.common, common);
    const Position usable = std::min(common, limit);
    EXPECT_EQ(match.length, usable >= 4 ? usable : 0);
    if (match.length > 0) return;
    EXPECT_EQ(*match.miss, common == 0 ? MissReason::no_candidate : MissReason::prefix_too_short);
  }

  // Forwards towards `goal` (or some more tokens) in chunks, publishing after each.
  void go_on(std::size_t index, const Tokens* goal = nullptr) {
    Session& session = sessions_[index];
    Tokens tokens = goal != nullptr ? *goal : session.tokens;
    if (goal == nullptr) append(tokens, 1 + random_.below(random_.chance(20) ? 100 : 6));
    if (tokens.size() > 500) {
      sessions_.erase(sessions_.begin() + static_cast<std::ptrdiff_t>(index));
      return;
    }
    while (session.tokens.size() < tokens.size()) {
      Tokens part = tokens;
      const std::size_t next = session.tokens.size() + 1 + pick(150);
      part.resize(std::min(part.size(), next));
      const bool with_tail = random_.chance(30) || part.size() == tokens.size();
      if (!bench_.go_on(session, part, with_tail)) {
        sessions_.erase(sessions_.begin() + static_cast<std::ptrdiff_t>(index));
        return;
      }
      remember(session, with_tail);
      if (random_.chance(40)) mark(session);
      if (random_.chance(70)) session.cache.drop_unneeded();
    }
    EXPECT_TRUE(holds_identities(session.cache, test::identities(tokens)));
    said_.push_back(tokens);
  }

  void remember(const Session& session, bool with_tail) {
    Tokens text = session.tokens;
    if (!with_tail) text.resize(static_cast<std::size_t>(session.path.published()));
    if (!text.empty()) published_.emplace(session.salt, std::move(text));
  }

  void mark(const Session& session) {
    const auto published = session.path.published();
    const Position position = random_.below(published + 1);
    bench_.cache.mark(session.path, session.tokens, position, MarkKind::history_boundary);
    if (random_.chance(50)) {
      bench_.cache.mark(session.path, session.tokens, static_cast<Position>(session.tokens.size()),
                        MarkKind::completion_end);
    }
  }

  // A running session looks up once more, as before every prefill chunk.
  void again(Session& session) {
    Tokens tokens = session.tokens;
    append(tokens, 1 + random_.below(80));
    const PromptCache::Match match =
        bench_.cache.match(session.salt, tokens, static_cast<Position>(tokens.size()) - 1);
    if (match.length <= session.cache.offset()) return;
    if (!bench_.cache.restore(session.salt, tokens, match, session.cache, session.path)) return;
    session.tokens.assign(tokens.begin(), tokens.begin() + match.length);
    EXPECT_TRUE(holds_identities(session.cache, test::identities(tokens)));
  }

  void go_back(Session& session) {
    const Position target =
        std::max<Position>(0, session.cache.offset() - random_.below(random_.chance(20) ? 150 : 9));
    if (!session.cache.can_truncate(target)) return;
    session.cache.truncate(target);
    session.tokens.resize(static_cast<std::size_t>(target));
    bench_.cache.publish(session.path, session.tokens, session.cache, false);
    remember(session, false);
    EXPECT_LE(session.path.published(), target);
    EXPECT_TRUE(holds_identities(session.cache, test::identities(session.tokens)));
  }

  void give_up() {
    if (random_.chance(10)) {
      bench_.now += 100;
      bench_.cache.expire();
      return;
    }
    const auto bytes = static_cast<std::size_t>(
        random_.below(static_cast<std::int64_t>(bench_.pool.budget_bytes())));
    if (random_.chance(20) || bytes < bench_.pool.budget_bytes() / 4) {
      const bool is_there = bench_.cache.make_room(bytes);
      EXPECT_EQ(is_there, bench_.pool.available_bytes() >= bytes);
      if (is_there || world_.store == CacheStore::materialised) return;
      EXPECT_EQ(bench_.pool.used_bytes(), bytes_of_sessions());  // nothing else was left to give
    }
  }

  std::size_t bytes_of_sessions() const {
    std::set<const std::uint8_t*> pages;
    std::size_t bytes = 0;
    for (const Session& session : sessions_) {
      for (int group = 0; group < static_cast<int>(session.cache.layout().groups.size()); group++) {
        for (Position i = 0; i < session.cache.page_count(group); i++) {
          const PageRef& page = session.cache.page(group, i);
          if (page && pages.insert(page.data()).second)
            bytes += session.cache.layout().groups[static_cast<std::size_t>(group)].page_bytes();
        }
      }
    }
    return bytes;
  }

  void reset(const std::string& salt) {
    bench_.cache.reset(salt);
    std::erase_if(published_, [&](const auto& entry) { return entry.first == salt; });
    EXPECT_EQ(bench_.cache.stats(salt).bytes, 0u);
    if (!world_
             .gives_up) {  // windows that sessions dropped are gone now: the twin cannot know which
      std::erase_if(sessions_, [&](const Session& session) { return session.salt == salt; });
    }
  }

  Random random_;
  World world_;
  Bench bench_;
  std::vector<Session> sessions_;
  std::vector<Tokens> said_;
  std::set<std::pair<std::string, Tokens>> published_;
};

class PromptCacheModel : public testing::TestWithParam<World> {};

TEST_P(PromptCacheModel, AgreesWithTheTwin) {
  // REPRISE_MODEL_SEEDS=N runs more of them.
  const char* more = std::getenv("REPRISE_MODEL_SEEDS");
  const std::uint64_t seeds = more == nullptr ? 3 : std::strtoull(more, nullptr, 10);
  for (std::uint64_t seed = 101; seed < 101 + seeds; seed++) {
    SCOPED_TRACE(testing::Message() << "world " << GetParam().name << " seed " << seed);
    Model(GetParam(), seed).run(1000);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, PromptCacheModel,
    testing::Values(
        World{"StandardPlenty", {kStandard}, 100000, CacheStore::reference, false},
        World{"WindowPlenty", {kStandard, window(8)}, 100000, CacheStore::reference, false},
        World{
            "AllPlenty", {kStandard, window(70), chunk(24)}, 100000, CacheStore::reference, false},
        World{"StandardTight", {kStandard}, 30}, World{"WindowTight", {kStandard, window(8)}, 60},
        World{"WideWindowTight", {kStandard, window(100), window(5)}, 80},
        World{"ChunkTight", {kStandard, chunk(8)}, 60},
        World{"WideChunkTight", {chunk(96), kStandard}, 60},
        World{"ManySiblingsTight", {kStandard, window(8)}, 90, CacheStore::reference, true, 40},
        World{"NoStandardTight", {window(20), chunk(64)}, 40},
        World{
            "AllMaterialised", {kStandard, window(70), chunk(24)}, 100, CacheStore::materialised}),
    [](const auto& world) { return std::string(world.param.name); });

}  // namespace
}  // namespace reprise
