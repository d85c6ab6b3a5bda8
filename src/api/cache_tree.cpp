// A scope's trie, run by run.
#include "api/cache_tree.h"

#include <algorithm>

#include <fmt/core.h>

#include "api/json_writer.h"

namespace reprise {
namespace {

std::string span_name(const LayerSpan& span) {
  switch (span.kind) {
    case SpanKind::standard:
      return "standard";
    case SpanKind::rotating:
      return fmt::format("rotating_{}", span.size);
    case SpanKind::chunked:
      return fmt::format("chunked_{}", span.size);
  }
  return "unknown";
}

double seconds(std::int64_t milliseconds) {
  return static_cast<double>(std::max<std::int64_t>(milliseconds, 0)) / 1000;
}

void append_run(JsonWriter& json, const CacheRun& run, std::size_t id,
                const std::vector<std::string>& groups, std::int64_t now_unix_ms) {
  json.begin_object();
  json.key("id").integer(id);
  json.key("parent");
  if (run.parent == CacheRun::kNoParent) {
    json.null();
  } else {
    json.integer(run.parent);
  }
  json.key("hash").text(fmt::format("{:016x}", run.hash));
  json.key("start").integer(run.start);
  json.key("end").integer(run.end);
  json.key("tokens").integer(run.end - run.start);
  json.key("marks").begin_array();
  for (const auto& [position, kind] : run.marks) {
    json.begin_object();
    json.key("position").integer(position);
    json.key("kind").text(mark_kind_name(kind));
    json.end_object();
  }
  json.end_array();
  json.key("bytes").integer(run.bytes);
  json.key("pages").begin_object();
  for (std::size_t group = 0; group < std::min(groups.size(), run.pages.size()); group++) {
    json.key(groups[group]).integer(run.pages[group]);
  }
  json.end_object();
  json.key("age_seconds").number(seconds(now_unix_ms - run.used_unix_ms));
  json.key("hits").integer(run.hits);
  json.key("in_use").integer(run.paths);
  json.key("pinned_for_seconds").number(seconds(run.pinned_until_unix_ms - now_unix_ms));
  json.end_object();
}

}  // namespace

std::vector<std::string> span_group_names(const KvLayout& layout) {
  std::vector<std::string> names;
  for (const SpanGroup& group : layout.groups) {
    const std::string base = span_name(group.span);
    std::string name = base;
    for (int n = 2; std::ranges::find(names, name) != names.end(); n++) {
      name = fmt::format("{}_{}", base, n);
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string format_cache_tree(std::string_view tenant, std::span<const CacheRun> runs,
                              bool truncated, const std::vector<std::string>& groups,
                              std::int64_t now_unix_ms) {
  JsonWriter json;
  json.begin_object();
  json.key("object").text("cache.tree");
  json.key("scope").begin_object().key("tenant").text(tenant).end_object();
  json.key("runs").begin_array();
  for (std::size_t id = 0; id < runs.size(); id++) {
    append_run(json, runs[id], id, groups, now_unix_ms);
  }
  json.end_array();
  json.key("truncated").boolean(truncated);
  return json.end_object().take();
}

}  // namespace reprise
