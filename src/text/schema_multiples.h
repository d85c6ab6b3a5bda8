// multipleOf in JSON schemas: which of them llguidance follows exactly, alone and joined.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace reprise {

// A multipleOf as llguidance has it: coefficient / 10^scale, in lowest terms.
struct Multiple {
  std::uint64_t coefficient = 0;
  std::uint32_t scale = 0;
  auto operator<=>(const Multiple&) const = default;
};

// Errors: invalid_argument (no number above 0), unsupported (a decimal that is not read exactly),
// exhausted (more digits than can be followed).
Result<Multiple> read_multiple(const JsonValue& value);

// Where schemas come together (allOf, a keyword beside $ref or anyOf ...) llguidance takes the
// least common multiple, in 32 bits that wrap around. This tells where it could.
class JoinedMultiples {
 public:
  // The schema's objects that were walked; `root` is what references are resolved in.
  explicit JoinedMultiples(const JsonValue& root) : root_(root) {}

  void add(const JsonObject& schema, Multiple multiple);

  // `schemas`: all objects that the root leads to, with their places. Errors: exhausted (too much
  // work), unsupported (a common multiple beyond what can be followed; begins with the place).
  Status check(const std::vector<std::pair<const JsonObject*, std::string>>& schemas);

 private:
  using Mask = std::uint64_t;  // bit per different multiple

  std::vector<Mask> contributions(const JsonObject& schema) const;
  Mask reach_of(const JsonValue& schema) const;
  Mask reach_of_all(const JsonValue* schemas) const;
  void spread(const std::vector<std::pair<const JsonObject*, std::string>>& schemas);
  // Whether those of the mask may be joined, in any order and more than once.
  bool can_join(Mask mask, bool is_pair) const;

  const JsonValue& root_;
  std::vector<Multiple> multiples_;
  std::map<const JsonObject*, Mask> reach_;
};

}  // namespace reprise
