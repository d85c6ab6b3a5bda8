// Whether no value can satisfy two of a schema's alternatives (oneOf).
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace reprise {

// Asked about all of one schema's oneOf: what it found once it need not look for again, and its
// work has an end.
class SchemaAlternatives {
 public:
  // What $ref refers to; must outlive this and not change.
  explicit SchemaAlternatives(const JsonValue& root) : root_(root) {}

  // By their types, by the constants that they are, or by a property that all have and that says
  // which it is. False: it cannot be told so simply. Errors: exhausted.
  Result<bool> exclude_one_another(const JsonArray& alternatives);

 private:
  // What a schema says about its values.
  struct Facts {
    std::vector<std::string_view> types;  // in order; none: any
    bool has_constants = false;
    std::vector<std::string> constants;  // in order, as canonical JSON
    std::set<std::string_view> required;
    const JsonObject* properties = nullptr;
  };

  const JsonObject* resolved(const JsonValue& schema);
  const Facts& facts_of(const JsonObject& schema);
  bool differ_as_values(const JsonObject& left, const JsonObject& right);
  bool differ_by_property(const Facts& left, const Facts& right);
  bool exclude(const JsonObject& left, const JsonObject& right);
  bool have_nothing_in_common(const auto& left, const auto& right);
  void spend(std::size_t steps) { steps_ += steps; }
  bool is_exhausted() const;

  const JsonValue& root_;
  std::map<const JsonValue*, const JsonObject*> targets_;
  std::map<const JsonObject*, Facts> facts_;
  std::map<std::pair<const JsonObject*, const JsonObject*>, bool> known_;
  std::size_t steps_ = 0;
};

}  // namespace reprise
