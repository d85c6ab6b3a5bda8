// Damaged snapshots end in an error or in exactly the state that they describe, never in a third
// thing; judged against an expectation that shares no code with the reader.
#include "unit/kv/snapshot_mutation.h"

#include <gtest/gtest.h>

#include "support/rounds.h"
#include "unit/kv/snapshot_expectation.h"

namespace reprise {
namespace {

using test::chunk;
using test::kStandard;
using test::LayerForm;
using test::Random;
using test::tiny_layout;
using test::Verdict;
using test::window;

const SnapshotWords kWords{.family = "muse_glimmer", .standard = "full", .rotating = "sliding"};
constexpr Position kOffsets[] = {1, 11, 12, 16, 17, 24, 36, 40};

class SnapshotMutation : public testing::Test {
 protected:
  PagePool pool_{tiny_layout({kStandard, window(16), chunk(12)}, 2, 16, 32), std::size_t{1} << 24};
  const KvLayout& layout_ = pool_.layout();
  std::vector<std::uint64_t> chain_ = test::chain_of(48);
  int restored_ = 0, refused_ = 0;

  void expect_right(const StateSnapshot& snapshot, Position target, const std::string& what) {
    const Verdict verdict = test::judge(snapshot, kWords, pool_, target);
    ASSERT_EQ(verdict.complaint, "") << what;
    (verdict.is_restored ? restored_ : refused_)++;
  }

  // One damage that leaves the rows and where they lie alone: the state is the undamaged one.
  void expect_same_or_refused(const StateSnapshot& snapshot, const std::string& what) {
    const auto restored = restore_sequence(snapshot, kWords, pool_);
    if (!restored) return;
    ASSERT_EQ(restored->offset(), snapshot.token_length) << what;
    ASSERT_TRUE(test::holds_identities(*restored, chain_)) << what;
  }

  void damage_one(const StateSnapshot& good, std::size_t t, const std::string& form);
};

// A ring's idx and a chunk's start_position say where tokens lie. A wrong value of theirs that is
// possible describes another valid snapshot, whose state judge() derives from the wrong value.
bool says_where(const std::string& name) {
  return name.ends_with(".idx") || name.ends_with("chunked.start_position");
}

// Drops, reshapes, re-types, repeats, renames and moves one tensor of the snapshot.
void SnapshotMutation::damage_one(const StateSnapshot& good, std::size_t t,
                                  const std::string& form) {
  const std::string what = form + " with " + good.tensors[t].name;
  const Position target = good.token_length - 1;
  const auto expect = [&](const StateSnapshot& damaged, const std::string& how) {
    expect_right(damaged, target, what + " " + how);
    if (!says_where(good.tensors[t].name)) expect_same_or_refused(damaged, what + " " + how);
  };
  StateSnapshot damaged = good;
  damaged.tensors.erase(damaged.tensors.begin() + static_cast<std::ptrdiff_t>(t));
  expect(damaged, "dropped");
  damaged = good;
  damaged.tensors.push_back(good.tensors[t]);
  expect(damaged, "twice");
  damaged = good;
  damaged.tensors[t].name += "x";
  expect(damaged, "renamed");
  for (std::size_t axis = 0; axis < good.tensors[t].shape.size(); axis++) {
    for (const std::int64_t change : {-1, 1, 7}) {
      damaged = good;
      damaged.tensors[t].shape[axis] += change;
      damaged.tensors[t].bytes.resize(test::bytes_for(damaged.tensors[t]));
      expect(damaged, "reshaped");
    }
  }
  for (const auto dtype :
       {SnapshotDtype::f16, SnapshotDtype::bf16, SnapshotDtype::f32, SnapshotDtype::i32}) {
    damaged = good;
    damaged.tensors[t].dtype = dtype;
    expect(damaged, "re-typed");
  }
  if (good.tensors[t].dtype != SnapshotDtype::i32) return;
  const std::string& name = good.tensors[t].name;
  for (const std::int32_t change : {-100, -12, -1, 1, 3, 5, 12, 100, 0x40000000}) {
    damaged = good;
    const std::int64_t moved = std::int64_t{test::scalar_of(good, name)} + change;
    test::set_scalar(damaged, name, static_cast<std::int32_t>(moved));
    expect(damaged, "moved");
  }
}

TEST_F(SnapshotMutation, OneDamageToEveryTensorOfEveryForm) {
  for (const Position offset : kOffsets) {
    for (int layer = 0; layer < 3; layer++) {
      const LayerSpan& span = layout_.groups[static_cast<std::size_t>(layer)].span;
      for (const LayerForm& form : test::forms_of(span, offset)) {
        StateSnapshot good{kWords.family, offset, {}};
        std::size_t first = 0, end = 0;  // the layer's own tensors
        for (int other = 0; other < 3; other++) {
          const LayerSpan& others = layout_.groups[static_cast<std::size_t>(other)].span;
          if (other == layer) first = good.tensors.size();
          test::push_layer(good, kWords, layout_, other,
                           other == layer ? form : test::forms_of(others, offset).front(), chain_);
          if (other == layer) end = good.tensors.size();
        }
        const std::string name = form.name + " at " + std::to_string(offset);
        expect_right(good, offset / 2, name);
        ASSERT_TRUE(restore_sequence(good, kWords, pool_).has_value()) << name;
        for (std::size_t t = first; t < end; t++) {
          damage_one(good, t, name);
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(restored_, 500);
  EXPECT_GT(refused_, 5000);
  EXPECT_EQ(pool_.used_bytes(), 0u);
}

TEST_F(SnapshotMutation, RandomDamageToRandomForms) {
  const int damaged = rounds(3000);
  for (std::uint64_t seed = 1; seed <= 4; seed++) {
    Random random(seed);
    for (int i = 0; i < damaged; i++) {
      const Position offset = kOffsets[random.below(std::ssize(kOffsets))];
      StateSnapshot snapshot = test::formed_snapshot(kWords, layout_, offset, chain_, random);
      for (std::int64_t n = random.below(4); n > 0; n--) test::Mutator(snapshot, random).mutate();
      expect_right(snapshot, random.below(offset + 2),
                   "seed " + std::to_string(seed) + " round " + std::to_string(i));
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(restored_, damaged);
  EXPECT_GT(refused_, damaged);
  EXPECT_EQ(pool_.used_bytes(), 0u);
}

}  // namespace
}  // namespace reprise
