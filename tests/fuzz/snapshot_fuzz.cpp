// Fuzzes the snapshot reader twice with each input: as a snapshot file, and as a list of choices
// that picks a valid snapshot in any physical form and damages it. What is restored must be exactly
// what the (damaged) snapshot describes.
#include <cstddef>
#include <cstdint>
#include <span>

#include <fmt/core.h>

#include "base/check.h"
#include "kv/snapshot_file.h"
#include "unit/kv/snapshot_expectation.h"
#include "unit/kv/snapshot_mutation.h"

namespace reprise {
namespace {

// Numbers below a bound from the input's bytes; 0 when they have run out.
class Choices {
 public:
  explicit Choices(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::int64_t below(std::int64_t bound) { return next() % bound; }
  bool is_empty() const { return bytes_.empty(); }

 private:
  std::int64_t next() {
    std::int64_t number = 0;
    for (int i = 0; i < 2 && !bytes_.empty(); i++, bytes_ = bytes_.subspan(1))
      number = number * 256 + std::to_integer<std::int64_t>(bytes_.front());
    return number;
  }
  std::span<const std::byte> bytes_;
};

class Target {
 public:
  void read_file(std::span<const std::byte> bytes) {
    const Result<StateSnapshot> snapshot = read_snapshot(bytes);
    if (!snapshot) return;
    static_cast<void>(describe_snapshot(*snapshot));
    const std::string file = write_snapshot(*snapshot);
    const Result<StateSnapshot> again = read_snapshot(std::as_bytes(std::span(file)));
    CHECK(again.has_value() && write_snapshot(*again) == file);
    judge(*snapshot, snapshot->token_length - 1);
  }

  void follow(std::span<const std::byte> bytes) {
    Choices choices(bytes);
    const Position offset = 1 + choices.below(47);
    const Position target = choices.below(offset + 2);
    StateSnapshot snapshot = test::formed_snapshot(words_, pool_.layout(), offset, chain_, choices);
    judge(snapshot, target);
    for (int i = 0; i < 8 && !choices.is_empty(); i++) {
      test::Mutator(snapshot, choices).mutate();
      static_cast<void>(describe_snapshot(snapshot));
      judge(snapshot, target);
    }
  }

 private:
  void judge(const StateSnapshot& snapshot, Position target) {
    const test::Verdict verdict = test::judge(snapshot, words_, pool_, target);
    if (!verdict.complaint.empty()) fmt::print(stderr, "{}\n", verdict.complaint);
    CHECK(verdict.complaint.empty());
  }

  SnapshotWords words_{.family = "llama4"};
  PagePool pool_{test::tiny_layout({test::kStandard, test::window(16), test::chunk(12)}, 2, 16, 32),
                 std::size_t{1} << 24};
  std::vector<std::uint64_t> chain_ = test::chain_of(48);
};

}  // namespace
}  // namespace reprise

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static reprise::Target target;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  target.read_file(bytes);
  target.follow(bytes);
  return 0;
}
