// The tree's lines.
#include "cli/cache_text.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <fmt/core.h>

#include "base/json.h"
#include "base/printable.h"

namespace reprise {
namespace {

constexpr std::size_t kIndentsMax = 24;  // deeper runs stand under each other
constexpr std::size_t kHashDigits = 12;

// A reply's object, whose members are asked for by name and type.
class Members {
 public:
  Members(std::string_view where, const JsonObject& object) : where_(where), object_(&object) {}

  Result<double> number(std::string_view name) const {
    const JsonValue* value = object_->if_contains(name);
    if (value == nullptr || !value->is_number()) return wrong(name, "a number");
    return value->to_number<double>();
  }
  // Absent for null.
  Result<std::optional<double>> number_or_null(std::string_view name) const {
    const JsonValue* value = object_->if_contains(name);
    if (value != nullptr && value->is_null()) return std::nullopt;
    TRY_ASSIGN(const double found, number(name));
    return found;
  }
  Result<std::string> text(std::string_view name) const {
    const JsonValue* value = object_->if_contains(name);
    if (value == nullptr || !value->is_string()) return wrong(name, "a string");
    return printable(std::string_view(value->get_string()));
  }
  Result<const JsonArray*> array(std::string_view name) const {
    const JsonValue* value = object_->if_contains(name);
    if (value == nullptr || !value->is_array()) return wrong(name, "an array");
    return &value->get_array();
  }

 private:
  std::unexpected<Error> wrong(std::string_view name, const char* expected) const {
    return fail(Errc::corrupt, fmt::format("{}: got no {}, expected {}", where_, name, expected),
                std::string(name));
  }
  std::string_view where_;
  const JsonObject* object_;
};

struct Run {
  std::optional<double> parent;
  std::string line;
};

std::string plural(double count, std::string_view one) {
  return fmt::format("{:.0f} {}{}", count, one, count == 1 ? "" : "s");
}

std::string entries_text(double count) {
  return count == 1 ? "1 entry" : fmt::format("{:.0f} entries", count);
}

Result<std::string> marks_text(const JsonArray& marks) {
  std::string text;
  for (const JsonValue& mark : marks) {
    if (!mark.is_object()) return fail(Errc::corrupt, "marks: got no objects, expected objects");
    const Members members("a mark", mark.get_object());
    TRY_ASSIGN(const double position, members.number("position"));
    TRY_ASSIGN(const std::string kind, members.text("kind"));
    text += fmt::format("{}{} {:.0f}", text.empty() ? "" : ", ", kind, position);
  }
  return text;
}

Result<Run> read_run(const JsonObject& object) {
  const Members run("a run", object);
  TRY_ASSIGN(const auto parent, run.number_or_null("parent"));
  TRY_ASSIGN(const std::string hash, run.text("hash"));
  TRY_ASSIGN(const double start, run.number("start"));
  TRY_ASSIGN(const double end, run.number("end"));
  TRY_ASSIGN(const JsonArray* marks, run.array("marks"));
  TRY_ASSIGN(const std::string marked, marks_text(*marks));
  TRY_ASSIGN(const double bytes, run.number("bytes"));
  TRY_ASSIGN(const double age, run.number("age_seconds"));
  TRY_ASSIGN(const double hits, run.number("hits"));
  TRY_ASSIGN(const double in_use, run.number("in_use"));
  TRY_ASSIGN(const auto pinned, run.number_or_null("pinned_for_seconds"));
  std::string line =
      fmt::format("{}  {:.0f}-{:.0f}  {}  {} old  {}", hash.substr(0, kHashDigits), start, end,
                  bytes_text(bytes), duration_text(age), plural(hits, "hit"));
  if (in_use > 0) line += fmt::format("  in use by {:.0f}", in_use);
  if (pinned.value_or(0) > 0) line += fmt::format("  pinned for {}", duration_text(*pinned));
  if (!marked.empty()) line += fmt::format("  [{}]", marked);
  return Run{parent, std::move(line)};
}

// "2 entries, 3.0 MiB...; 5 hits in 9 lookups, 1234 tokens reused"; `of` comes behind the bytes.
Result<std::string> counts_text(const Members& stats, std::string_view of) {
  TRY_ASSIGN(const double entries, stats.number("entries"));
  TRY_ASSIGN(const double bytes, stats.number("bytes"));
  TRY_ASSIGN(const double hits, stats.number("hits"));
  TRY_ASSIGN(const double lookups, stats.number("lookups"));
  TRY_ASSIGN(const double reused, stats.number("tokens_reused"));
  return fmt::format("{}, {}{}; {} in {}, {} reused", entries_text(entries), bytes_text(bytes), of,
                     plural(hits, "hit"), plural(lookups, "lookup"), plural(reused, "token"));
}

// The asker's own numbers; under them, for an admin of a server with keys, everybody's.
Result<std::string> stats_text(const JsonObject& object, std::string_view tenant) {
  const Members own("the statistics", object);
  TRY_ASSIGN(const double capacity, own.number("capacity_bytes"));
  TRY_ASSIGN(const std::string counts,
             counts_text(own, fmt::format(" of {}", bytes_text(capacity))));
  if (tenant.empty()) return fmt::format("prompt cache: {}\n", counts);
  std::string text = fmt::format("cache of {}: {}\n", tenant, counts);
  const JsonValue* sums = object.if_contains("all");
  if (sums == nullptr || !sums->is_object()) return text;
  const Members all("the sums", sums->get_object());
  TRY_ASSIGN(const double used, all.number("used_bytes"));
  TRY_ASSIGN(const std::string all_counts,
             counts_text(all, fmt::format(" of {} in use", bytes_text(used))));
  return text + fmt::format("all keys: {}\n", all_counts);
}

// Runs under their parents, each with its depth, in the order in which the server sent them.
std::string indented(const std::vector<Run>& runs, const std::vector<double>& ids) {
  std::map<double, std::size_t> index;
  std::vector<std::vector<std::size_t>> children(runs.size() + 1);  // the last: of no run
  for (std::size_t i = 0; i < runs.size(); i++) {
    const auto parent = runs[i].parent ? index.find(*runs[i].parent) : index.end();
    children[parent == index.end() ? runs.size() : parent->second].push_back(i);
    index.emplace(ids[i], i);
  }
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> open;  // run, depth
  const auto open_children = [&](std::size_t of, std::size_t depth) {
    for (auto child = children[of].rbegin(); child != children[of].rend(); ++child)
      open.emplace_back(*child, depth);
  };
  open_children(runs.size(), 0);
  while (!open.empty()) {
    const auto [run, depth] = open.back();
    open.pop_back();
    text +=
        fmt::format("{}{}\n", std::string(2 * std::min(depth, kIndentsMax), ' '), runs[run].line);
    open_children(run, depth + 1);
  }
  return text;
}

Result<JsonObject> read_object(std::string_view text, std::string_view name) {
  Result<JsonValue> value = parse_json(text, {.bytes_max = std::size_t{256} << 20});
  if (!value) return fail(Errc::corrupt, fmt::format("{}: {}", name, value.error().message));
  if (!value->is_object())
    return fail(Errc::corrupt, fmt::format("{}: got no object, expected one", name));
  return std::move(value->get_object());
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    unit++;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e15));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min", whole / 60);
  if (whole < 86'400) return fmt::format("{} h", whole / 3600);
  return fmt::format("{} d", whole / 86'400);
}

Result<std::string> reset_text(std::string_view outcome_json) {
  TRY_ASSIGN(const JsonObject object, read_object(outcome_json, "/v1/cache/reset"));
  const Members outcome("the outcome", object);
  TRY_ASSIGN(const double bytes, outcome.number("freed_bytes"));
  TRY_ASSIGN(const double entries, outcome.number("freed_entries"));
  return fmt::format("dropped {}, {} freed\n", entries_text(entries), bytes_text(bytes));
}

Result<std::string> cache_text(std::string_view stats_json, std::string_view tree_json) {
  TRY_ASSIGN(const JsonObject stats, read_object(stats_json, "/v1/cache/stats"));
  TRY_ASSIGN(const JsonObject tree, read_object(tree_json, "/v1/cache/tree"));
  std::string tenant;
  if (const JsonValue* scope = tree.if_contains("scope"); scope != nullptr && scope->is_object()) {
    TRY_ASSIGN(tenant, Members("scope", scope->get_object()).text("tenant"));
  }
  TRY_ASSIGN(std::string text, stats_text(stats, tenant));
  TRY_ASSIGN(const JsonArray* array, Members("the tree", tree).array("runs"));
  std::vector<Run> runs;
  std::vector<double> ids;
  for (const JsonValue& value : *array) {
    if (!value.is_object()) return fail(Errc::corrupt, "runs: got no objects, expected objects");
    TRY_ASSIGN(const double id, Members("a run", value.get_object()).number("id"));
    TRY_ASSIGN(Run run, read_run(value.get_object()));
    ids.push_back(id);
    runs.push_back(std::move(run));
  }
  text += indented(runs, ids);
  const JsonValue* truncated = tree.if_contains("truncated");
  if (truncated != nullptr && truncated->is_bool() && truncated->get_bool())
    text += fmt::format("({} runs, the most recently used; there are more)\n", runs.size());
  return text;
}

}  // namespace reprise
