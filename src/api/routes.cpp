// The table of endpoints.
#include "api/routes.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/core.h>

namespace reprise {
namespace {

struct Entry {
  std::string_view method;
  std::string_view path;  // with a slash at its end: everything below it
  Endpoint endpoint;
  std::string_view suffix = {};  // what the rest of such a path ends with; then it is one segment
};

// The paths without /v1 are those that llama-server serves too.
constexpr std::array kTable = {
    Entry{"POST", "/v1/chat/completions", Endpoint::chat},
    Entry{"POST", "/chat/completions", Endpoint::chat},
    Entry{"POST", "/v1/completions", Endpoint::completions},
    Entry{"POST", "/completion", Endpoint::llama_completion},
    Entry{"POST", "/completions", Endpoint::llama_completion},
    Entry{"POST", "/v1/responses", Endpoint::responses},
    Entry{"POST", "/responses", Endpoint::responses},
    Entry{"POST", "/v1/responses/input_tokens", Endpoint::response_tokens},
    Entry{"GET", "/v1/responses/", Endpoint::response_items, "/input_items"},
    Entry{"GET", "/v1/responses/", Endpoint::response},
    Entry{"DELETE", "/v1/responses/", Endpoint::response},
    Entry{"GET", "/", Endpoint::root},
    Entry{"GET", "/v1/models", Endpoint::models},
    Entry{"GET", "/models", Endpoint::models},
    Entry{"GET", "/v1/models/", Endpoint::model},
    Entry{"POST", "/tokenize", Endpoint::tokenize},
    Entry{"POST", "/detokenize", Endpoint::detokenize},
    Entry{"POST", "/apply-template", Endpoint::apply_template},
    Entry{"GET", "/health", Endpoint::health},
    Entry{"GET", "/v1/health", Endpoint::health},
    Entry{"GET", "/ready", Endpoint::ready},
    Entry{"GET", "/props", Endpoint::props},
    Entry{"GET", "/openapi.json", Endpoint::openapi},
    Entry{"GET", "/metrics", Endpoint::metrics},
    Entry{"GET", "/v1/cache/stats", Endpoint::cache_stats},
    Entry{"GET", "/v1/cache/tree", Endpoint::cache_tree},
    Entry{"POST", "/v1/cache/reset", Endpoint::cache_reset},
};

// What other servers offer, at these paths and below them.
struct Absent {
  std::string_view path, what;
};
constexpr std::array kAbsent = {
    Absent{"/v1/embeddings", "embeddings are"},
    Absent{"/v1/audio", "audio is"},
    Absent{"/v1/images", "images are"},
    Absent{"/v1/videos", "videos are"},
    Absent{"/v1/moderations", "moderations are"},
    Absent{"/v1/files", "files are"},
    Absent{"/v1/uploads", "uploads are"},
    Absent{"/v1/batches", "batches are"},
    Absent{"/v1/fine_tuning", "fine-tuning is"},
    Absent{"/v1/assistants", "assistants are"},
    Absent{"/v1/threads", "threads are"},
    Absent{"/v1/vector_stores", "vector stores are"},
    Absent{"/v1/conversations", "conversations are"},
    Absent{"/v1/containers", "containers are"},
    Absent{"/v1/evals", "evals are"},
    Absent{"/v1/realtime", "realtime sessions are"},
    Absent{"/v1/responses/compact", "compaction of conversations is"},
    Absent{"/v1/messages", "Anthropic's API is"},
    Absent{"/v1/rerank", "reranking is"},
    Absent{"/rerank", "reranking is"},
    Absent{"/reranking", "reranking is"},
    Absent{"/embedding", "embeddings are"},
    Absent{"/embeddings", "embeddings are"},
    Absent{"/infill", "infill is"},
    Absent{"/slots", "slots are"},
    Absent{"/lora-adapters", "adapters are"},
    Absent{"/api", "Ollama's API is"},
};

// `path`, or what lies below it.
bool is_at_or_below(std::string_view path, std::string_view asked) {
  return asked.starts_with(path) && (asked.size() == path.size() || asked[path.size()] == '/');
}

std::unexpected<ApiError> no_such_path(std::string_view path) {
  for (const Absent& absent : kAbsent) {
    if (!is_at_or_below(absent.path, path)) continue;
    return refuse(404, "not_found",
                  fmt::format("{}: {} not offered here, expected a path of /openapi.json, such as "
                              "/v1/chat/completions",
                              clipped(path), absent.what));
  }
  return refuse(404, "not_found", fmt::format("no such path: {}", clipped(path)));
}

// Whether a segment is one of some path that we know.
bool is_known_segment(std::string_view segment) {
  const auto has = [segment](std::string_view path) {
    while (!path.empty()) {
      path.remove_prefix(1);
      const std::string_view first = path.substr(0, path.find('/'));
      if (first == segment) return true;
      path.remove_prefix(first.size());
    }
    return false;
  };
  return std::ranges::any_of(
             kTable, [&](const Entry& entry) { return has(entry.path) || has(entry.suffix); }) ||
         std::ranges::any_of(kAbsent, [&](const Absent& absent) { return has(absent.path); });
}

// Whether the entry's path has something below it.
bool is_parent(const Entry& entry) {
  return entry.path.size() > 1 && entry.path.ends_with('/');
}

// The rest of the path below an entry that has one; empty: it is not there.
std::string_view rest_of(const Entry& entry, std::string_view path) {
  if (!path.starts_with(entry.path) || !path.ends_with(entry.suffix)) return {};
  if (path.size() <= entry.path.size() + entry.suffix.size()) return {};
  path.remove_prefix(entry.path.size());
  path.remove_suffix(entry.suffix.size());
  // Only ids of models have slashes in them.
  if (entry.endpoint != Endpoint::model && path.find('/') != std::string_view::npos) return {};
  return path;
}

bool matches(const Entry& entry, std::string_view path) {
  return is_parent(entry) ? !rest_of(entry, path).empty() : path == entry.path;
}

// Whether anybody may ask.
bool is_public(Endpoint endpoint) {
  return endpoint == Endpoint::health || endpoint == Endpoint::ready ||
         endpoint == Endpoint::openapi || endpoint == Endpoint::root;
}

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view endpoint_name(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::chat:
      return "chat";
    case Endpoint::completions:
      return "completions";
    case Endpoint::llama_completion:
      return "completion";
    case Endpoint::responses:
      return "responses";
    case Endpoint::response:
      return "response";
    case Endpoint::response_items:
      return "response_items";
    case Endpoint::response_tokens:
      return "response_tokens";
    case Endpoint::root:
      return "root";
    case Endpoint::tokenize:
      return "tokenize";
    case Endpoint::detokenize:
      return "detokenize";
    case Endpoint::apply_template:
      return "apply_template";
    case Endpoint::ready:
      return "ready";
    case Endpoint::props:
      return "props";
    case Endpoint::openapi:
      return "openapi";
    case Endpoint::models:
      return "models";
    case Endpoint::model:
      return "model";
    case Endpoint::health:
      return "health";
    case Endpoint::metrics:
      return "metrics";
    case Endpoint::cache_stats:
      return "cache_stats";
    case Endpoint::cache_tree:
      return "cache_tree";
    case Endpoint::cache_reset:
      return "cache_reset";
    case Endpoint::preflight:
      return "preflight";
    case Endpoint::none:
      return "none";
  }
  return "none";
}

std::string route_path(Endpoint endpoint) {
  const auto entry = std::ranges::find(kTable, endpoint, &Entry::endpoint);
  if (entry == kTable.end()) return {};
  if (!is_parent(*entry)) return std::string(entry->path);
  return fmt::format("{}{{id}}{}", entry->path, entry->suffix);
}

std::string route_methods(Endpoint endpoint) {
  const auto first = std::ranges::find(kTable, endpoint, &Entry::endpoint);
  std::string methods;
  for (const Entry& entry : kTable) {
    if (entry.endpoint != endpoint || entry.path != first->path) continue;
    if (!methods.empty()) methods += '|';
    methods += entry.method;
  }
  return methods;
}

std::string loggable_path(std::string_view path) {
  constexpr std::size_t kSegmentsMax = 8;
  if (path == "/") return "/";
  std::string out;
  std::size_t segments = 0;
  while (path.starts_with('/')) {
    if (segments++ == kSegmentsMax) return out + "/...";
    path.remove_prefix(1);
    const std::string_view segment = path.substr(0, path.find('/'));
    path.remove_prefix(segment.size());
    out += '/';
    out += is_known_segment(segment) ? segment : "{...}";
  }
  return path.empty() ? out : out + "{...}";
}

Target split_target(std::string_view target) {
  target = target.substr(0, target.find('#'));
  const std::size_t mark = target.find('?');
  if (mark == std::string_view::npos) return {target, {}};
  return {target.substr(0, mark), target.substr(mark + 1)};
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); at++) {
    if (text[at] == '+' && plus_is_space) {
      decoded += ' ';
    } else if (text[at] != '%') {
      decoded += text[at];
    } else {
      const int high = at + 2 < text.size() ? hex_digit(text[at + 1]) : -1;
      const int low = at + 2 < text.size() ? hex_digit(text[at + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      decoded += static_cast<char>(high * 16 + low);
      at += 2;
    }
  }
  return decoded;
}

ApiResult<std::optional<std::string>> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.substr(0, pair.find('=')) != name) continue;
    const std::string_view raw =
        pair.size() > name.size() ? pair.substr(name.size() + 1) : std::string_view();
    std::optional<std::string> value = percent_decoded(raw, true);
    if (!value) {
      return refuse(400, "invalid_value",
                    fmt::format("{}: got a broken percent escape, expected two hex digits", name),
                    std::string(name));
    }
    return value;
  }
  return std::nullopt;
}

ApiResult<std::optional<std::int64_t>> query_integer(std::string_view query, std::string_view name,
                                                     std::int64_t low, std::int64_t high) {
  TRY_ASSIGN(const std::optional<std::string> text, query_value(query, name));
  if (!text) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, trouble] = std::from_chars(text->data(), end, number);
  if (trouble != std::errc() || stop != end || number < low || number > high) {
    return refuse(400, "invalid_value",
                  fmt::format("{}: got \"{}\", expected {} to {}", name, clipped(*text), low, high),
                  std::string(name));
  }
  return number;
}

std::string allowed_methods(std::string_view path) {
  std::string methods;
  for (const Entry& entry : kTable) {
    if (!matches(entry, path)) continue;
    methods += entry.method;
    methods += entry.method == "GET" ? ", HEAD, " : ", ";  // the connection makes it a GET
  }
  if (!methods.empty()) methods += "OPTIONS";
  return methods;
}

ApiResult<Route> find_route(std::string_view method, std::string_view path) {
  const std::string allowed = allowed_methods(path);
  if (allowed.empty()) return no_such_path(path);
  if (method == "OPTIONS") return Route{Endpoint::preflight, {}, false, false};
  for (const Entry& entry : kTable) {
    if (entry.method != method || !matches(entry, path)) continue;
    const bool has_body = method == "POST" && entry.endpoint != Endpoint::cache_reset;
    Route route{entry.endpoint, {}, !is_public(entry.endpoint), has_body};
    if (is_parent(entry)) {
      std::optional<std::string> rest = percent_decoded(rest_of(entry, path), false);
      if (!rest) return no_such_path(path);
      route.argument = std::move(*rest);
    }
    return route;
  }
  // Else the word would be taken for a response's id.
  if (path == "/v1/responses/compact" && method == "POST") return no_such_path(path);
  return refuse(
      405, "method_not_allowed",
      fmt::format("{}: got method {}, expected {}", clipped(path), clipped(method), allowed));
}

}  // namespace reprise
