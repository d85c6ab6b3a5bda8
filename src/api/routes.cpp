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
    Entry{"GET", "/v1/responses/", Endpoint::response_items, "/input_items"},
    Entry{"GET", "/v1/responses/", Endpoint::response},
    Entry{"DELETE", "/v1/responses/", Endpoint::response},
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
  return entry.path.ends_with('/') ? !rest_of(entry, path).empty() : path == entry.path;
}

// Whether anybody may ask.
bool is_public(Endpoint endpoint) {
  return endpoint == Endpoint::health || endpoint == Endpoint::ready ||
         endpoint == Endpoint::openapi;
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
  if (allowed.empty()) {
    return refuse(404, "not_found", fmt::format("no such path: {}", clipped(path)));
  }
  if (method == "OPTIONS") return Route{Endpoint::preflight, {}, false, false};
  for (const Entry& entry : kTable) {
    if (entry.method != method || !matches(entry, path)) continue;
    const bool has_body = method == "POST" && entry.endpoint != Endpoint::cache_reset;
    Route route{entry.endpoint, {}, !is_public(entry.endpoint), has_body};
    if (entry.path.ends_with('/')) {
      std::optional<std::string> rest = percent_decoded(rest_of(entry, path), false);
      if (!rest) {
        return refuse(404, "not_found", fmt::format("no such path: {}", clipped(path)));
      }
      route.argument = std::move(*rest);
    }
    return route;
  }
  return refuse(
      405, "method_not_allowed",
      fmt::format("{}: got method {}, expected {}", clipped(path), clipped(method), allowed));
}

}  // namespace reprise
