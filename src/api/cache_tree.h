// GET /v1/cache/tree as JSON: hashes, counts, marks and bytes. No text, no tokens.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/kv_layout.h"
#include "kv/prompt_cache.h"

namespace reprise {

// A name for each span group: "standard", "rotating_512", "chunked_8192"; "_2" ... behind those
// that differ in the shape of their keys and values only.
std::vector<std::string> span_group_names(const KvLayout& layout);

// `runs` as PromptCache::tree gives them. `truncated`: there are more.
std::string format_cache_tree(std::string_view tenant, std::span<const CacheRun> runs,
                              bool truncated, const std::vector<std::string>& groups,
                              std::int64_t now_unix_ms);

}  // namespace reprise
