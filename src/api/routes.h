// What lies behind which method and path.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/api_error.h"

namespace reprise {

enum class Endpoint : std::uint8_t {
  chat,
  completions,
  llama_completion,  // llama-server's own form
  responses,
  response,
  response_items,
  models,
  model,
  tokenize,
  detokenize,
  apply_template,
  health,
  ready,
  props,
  openapi,
  metrics,
  cache_stats,
  cache_tree,
  cache_reset,
  preflight,
  none,
};
std::string_view endpoint_name(Endpoint endpoint);  // for metrics

struct Route {
  Endpoint endpoint = Endpoint::none;
  std::string argument;  // decoded rest of the path: the id of a model or a response
  bool needs_key = true;
  bool has_body = false;  // JSON
};

// A target's path, and its query without the question mark.
struct Target {
  std::string_view path;
  std::string_view query;
};
Target split_target(std::string_view target);

// Percent-decoded; nullopt when an escape is broken.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space);

// The value of a query parameter; nullopt when it is absent. Errors: 400 invalid_value.
ApiResult<std::optional<std::string>> query_value(std::string_view query, std::string_view name);

// The same as an integer of [low, high].
ApiResult<std::optional<std::int64_t>> query_integer(std::string_view query, std::string_view name,
                                                     std::int64_t low, std::int64_t high);

// The methods of a path, as Allow lists them; empty when there is no such path.
std::string allowed_methods(std::string_view path);

// Errors: 404 not_found, 405 method_not_allowed.
ApiResult<Route> find_route(std::string_view method, std::string_view path);

}  // namespace reprise
