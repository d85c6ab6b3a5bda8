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
  response_tokens,
  response_items,
  root,
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

// The endpoint's path as documents have it, its first one where it has several:
// "/v1/responses/{id}". Empty: it has none.
std::string route_path(Endpoint endpoint);
// Its methods: "GET", "GET|DELETE".
std::string route_methods(Endpoint endpoint);

// A path that a client asked for, for the log: segments that no path of this API, or of others that
// clients ask for, has are left out: "/v1/{...}/input_items".
std::string loggable_path(std::string_view path);

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
