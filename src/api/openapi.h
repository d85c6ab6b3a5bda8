// The OpenAPI 3.1 document of GET /openapi.json: requests from the tables that parse them, the rest
// written down here.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "api/limits.h"
#include "base/json.h"

namespace reprise {

// An endpoint, for people and for generators of clients.
struct RouteDescription {
  std::string_view method;        // "POST"
  std::string_view path;          // "/v1/models/{id}"
  std::string_view summary;       // one line
  std::string_view request = {};  // the name of its body's schema; empty: no body
  std::string_view reply = {};    // the name of its reply's schema; empty: no JSON
  std::string_view events = {};   // of the events of a stream; empty: it has none
  bool needs_key = true;
  std::span<const std::string_view> query = {};  // names of its query parameters
};

// All endpoints that a client may call.
std::span<const RouteDescription> route_descriptions();

// The whole document, as JSON text. `limits` are in the schemas as bounds.
std::string openapi_document(std::span<const RouteDescription> routes, const Limits& limits,
                             std::string_view version);

// Schemas of replies, by name: {"ChatCompletion": {...}, "Error": {...} ...}.
JsonObject reply_schemas();

}  // namespace reprise
