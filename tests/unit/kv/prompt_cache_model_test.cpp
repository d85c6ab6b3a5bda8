// Random conversations against a naive twin: every restored sequence must have the content of its
// own tokens, lookups must find what was published, invariants hold after every operation.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "kv/prompt_node.h"
#include "unit/kv/prompt_cache_support.h"

namespace reprise {
namespace {

using test::Bench;
using test::chunk;
using test::holds_identities;
using test::kA;
using test::kB;
using test::kC;
using test::kStandard;
using test::Random;
using test::Session;
using test::tiny_layout;
using test::Tokens;
using test::window;

const std::array<CacheScope, 3> kScopes = {kA, kB, kC};

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
    for (const CacheScope& scope : kScopes) bench_.cache.reset(scope);
    EXPECT_EQ(bench_.pool.used_bytes(), 0u);
    const auto stats = bench_.cache.stats();
    EXPECT_GT(stats.hits, static_cast<std::uint64_t>(operations / 40));  // not a vacuous pass
    EXPECT_EQ(stats.bytes, 0u);
    EXPECT_GT(moved_, 0u);
    EXPECT_GT(pins_, static_cast<std::uint64_t>(operations / 200));
    EXPECT_GE(stats.evictions_lru + stats.window_pages_dropped, world_.gives_up ? 20u : 0u);
  }

 private:
  static PromptCacheOptions options_of(const World& world) {
    PromptCacheOptions options;
    options.store = world.store;
    options.min_prefix = 4;
    options.ttl_ms = 500;
    options.ghosts_per_salt = 50;
    options.idle_salts_max = 1;  // of three
    options.pinned_bytes_per_tenant = world.budget_pages * 4096 / 4;
    options.pinned_bytes_max = world.budget_pages * 4096 / 3;
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
    if (random_.chance(10)) moved_ += bench_.pool.compact();  // pages lie elsewhere then
    const std::int64_t action = random_.below(100);
    if (sessions_.empty() || (action < 25 && sessions_.size() < 5)) {
      begin();
    } else if (action < 55) {
      go_on(pick(sessions_.size()));
    } else if (action < 60) {
      pin(sessions_[pick(sessions_.size())]);
    } else if (action < 65) {
      check_tree(kScopes[pick(3)]);
      fork(sessions_[pick(sessions_.size())]);
    } else if (action < 75) {
      sessions_.erase(sessions_.begin() + static_cast<std::ptrdiff_t>(pick(sessions_.size())));
    } else if (action < 82) {
      again(sessions_[pick(sessions_.size())]);
    } else if (action < 88) {
      go_back(sessions_[pick(sessions_.size())]);
    } else if (action < 99) {
      if (world_.gives_up) give_up();
    } else {
      reset(kScopes[pick(3)]);
    }
    if (said_.size() > 40) said_.erase(said_.begin());
  }

  void begin() {
    sessions_.push_back(bench_.open(random_.chance(70) ? kA : kScopes[pick(3)]));
    const Tokens tokens = prompt();
    look_up(sessions_.back(), tokens);
    go_on(sessions_.size() - 1, &tokens);
  }

  // What the twin knows: the longest common prefix with anything ever published under the salt.
  Position published_common(const CacheScope& scope, const Tokens& tokens) const {
    Position longest = 0;
    for (const auto& [owner, text] : published_) {
      if (owner != scope) continue;
      const auto end = std::mismatch(text.begin(), text.end(), tokens.begin(), tokens.end());
      longest = std::max<Position>(longest, end.first - text.begin());
    }
    return longest;
  }

  void look_up(Session& session, const Tokens& tokens) {
    const Position limit = static_cast<Position>(tokens.size()) - 1;
    const Position common = published_common(session.scope, tokens);
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
    if (text.empty()) return;
    std::uint64_t hash = kEmptyPrefixHash;
    Position length = 0;
    for (const TokenId token : text)
      prefixes_[session.scope].emplace(hash = extend_prefix_hash(hash, token), ++length);
    published_.emplace(session.scope, std::move(text));
  }

  void mark(const Session& session) {
    const auto published = session.path.published();
    const auto set = [&](Position position, MarkKind kind) {
      bench_.cache.mark(session.path, session.tokens, position, kind);
      marked_[session.scope].emplace(position, kind);
    };
    for (int i = 0; i < 2; i++)
      set(random_.below(published + 1), static_cast<MarkKind>(random_.below(kMarkKinds)));
    if (random_.chance(50)) {
      set(static_cast<Position>(session.tokens.size()),
          random_.chance(50) ? MarkKind::completion_end : MarkKind::prompt_end);
    }
  }

  void pin(const Session& session) {
    if (session.tokens.empty()) return;
    const Position published = session.path.published();
    const Position position = random_.chance(50) || published == 0
                                  ? static_cast<Position>(session.tokens.size())
                                  : 1 + random_.below(published);
    const std::size_t before = bench_.cache.stats().pinned_bytes;
    const std::uint64_t refused = bench_.cache.stats().pins_refused;
    if (bench_.cache.pin(session.path, session.tokens, position,
                         bench_.now + 1 + random_.below(300))) {
      pins_++;
      EXPECT_EQ(bench_.cache.stats().pins_refused, refused);
    } else {
      EXPECT_LE(bench_.cache.stats().pinned_bytes, before);  // ended ones are dropped
    }
  }

  // A second request resumes where a running one stands, and goes another way.
  void fork(const Session& session) {
    if (sessions_.size() >= 6 || session.tokens.empty()) return;
    Session other = bench_.open(session.scope);
    Tokens tokens = session.tokens;
    append(tokens, 1 + random_.below(20));
    look_up(other, tokens);
    sessions_.push_back(std::move(other));
    go_on(sessions_.size() - 1, &tokens);
  }

  // The tree shows what was published and marked, and nothing else; its sums are the stats'.
  void check_tree(const CacheScope& scope) {
    const std::vector<CacheRun> tree = bench_.cache.tree(scope, 10000);
    const PromptCacheStats stats = bench_.cache.stats(scope);
    std::size_t bytes = 0, leaves = 0, blocks = 0;
    std::vector<bool> continues(tree.size());
    for (std::size_t i = 0; i < tree.size(); i++) {
      const CacheRun& run = tree[i];
      EXPECT_LT(run.start, run.end);
      EXPECT_TRUE(prefixes_[scope].contains({run.hash, run.end}));
      if (run.parent == CacheRun::kNoParent) {
        EXPECT_EQ(run.start, 0);
      } else {
        ASSERT_LT(run.parent, i);
        EXPECT_EQ(tree[run.parent].end, run.start);
        continues[run.parent] = true;
      }
      for (const auto& [position, kind] : run.marks) {
        EXPECT_LT(run.start, position);
        EXPECT_LE(position, run.end);
        EXPECT_TRUE(kind == MarkKind::branch_point || position % 64 == 0 ||
                    marked_[scope].contains({position, kind}));
      }
      bytes += run.bytes;
      blocks += static_cast<std::size_t>((run.end - run.start) / 64);
    }
    for (const bool continued : continues) leaves += continued ? 0 : 1;
    EXPECT_EQ(bytes, stats.bytes);
    EXPECT_EQ(leaves, stats.entries);
    const std::vector<CacheRun> few = bench_.cache.tree(scope, 3);
    EXPECT_EQ(few.size(), std::min<std::size_t>(3, tree.size()));
    if (world_.gives_up || world_.store == CacheStore::materialised) return;
    std::set<Tokens> whole;  // the twin's blocks, each named by all tokens up to its end
    for (const auto& [owner, text] : published_) {
      if (owner != scope) continue;
      for (std::size_t end = 64; end <= text.size(); end += 64)
        whole.emplace(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end));
    }
    EXPECT_EQ(blocks, whole.size());
  }

  // A running session looks up once more, as before every prefill chunk.
  void again(Session& session) {
    Tokens tokens = session.tokens;
    append(tokens, 1 + random_.below(80));
    const PromptCache::Match match =
        bench_.cache.match(session.scope, tokens, static_cast<Position>(tokens.size()) - 1);
    if (match.length <= session.cache.offset()) return;
    if (!bench_.cache.restore(session.scope, tokens, match, session.cache, session.path)) return;
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
    std::set<std::uint64_t> pages;
    std::size_t bytes = 0;
    for (const Session& session : sessions_) {
      for (int group = 0; group < static_cast<int>(session.cache.layout().groups.size()); group++) {
        for (Position i = 0; i < session.cache.page_count(group); i++) {
          const PageRef& page = session.cache.page(group, i);
          if (page && pages.insert(page.key()).second)
            bytes += session.cache.layout().groups[static_cast<std::size_t>(group)].page_bytes();
        }
      }
    }
    return bytes;
  }

  void reset(const CacheScope& scope) {
    bench_.cache.reset(scope);
    std::erase_if(published_, [&](const auto& entry) { return entry.first == scope; });
    prefixes_.erase(scope);
    EXPECT_EQ(bench_.cache.stats(scope).bytes, 0u);
    if (!world_
             .gives_up) {  // windows that sessions dropped are gone now: the twin cannot know which
      std::erase_if(sessions_, [&](const Session& session) { return session.scope == scope; });
    }
  }

  Random random_;
  World world_;
  Bench bench_;
  std::vector<Session> sessions_;
  std::vector<Tokens> said_;
  std::set<std::pair<CacheScope, Tokens>> published_;
  std::map<CacheScope, std::set<std::pair<std::uint64_t, Position>>> prefixes_;  // hash, length
  std::map<CacheScope, std::set<std::pair<Position, MarkKind>>> marked_;
  std::uint64_t pins_ = 0;
  std::size_t moved_ = 0;
};

class PromptCacheModel : public testing::TestWithParam<World> {};

TEST_P(PromptCacheModel, AgreesWithTheTwin) {
  // REPRISE_MODEL_SEEDS: how many runs of each world; REPRISE_MODEL_OPERATIONS: of all together.
  const auto number = [](const char* name, std::uint64_t fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
  };
  constexpr std::uint64_t kWorlds = 11;
  const std::uint64_t seeds = std::max<std::uint64_t>(number("REPRISE_MODEL_SEEDS", 3), 1);
  const std::uint64_t operations = number("REPRISE_MODEL_OPERATIONS", 100'000) / kWorlds / seeds;
  for (std::uint64_t seed = 101; seed < 101 + seeds; seed++) {
    SCOPED_TRACE(testing::Message() << "world " << GetParam().name << " seed " << seed);
    Model(GetParam(), seed).run(static_cast<int>(operations));
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
