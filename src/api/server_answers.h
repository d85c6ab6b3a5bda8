// What the server says of itself: its model, its health, its properties.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace reprise {

class Bundle;

// How the server does: what /health and /ready say. 200 while it takes requests, else 503.
struct ServerHealth {
  int status = 200;
  std::string body;
};
// {"status":"ok"|"stopping"|"failed","reason","model","running","waiting"}; the counts only where
// anybody may see them.
ServerHealth server_health(const EngineStats& stats, std::string_view model, bool is_stopping,
                           bool shows_counts);

// GET /: what this is, and where to go on. It says nothing that a key would guard.
std::string root_body();

// A model object, and a list of the one.
std::string model_body(std::string_view model, std::int64_t created, Position longest);
std::string models_body(std::string_view model, std::int64_t created, Position longest);

// llama-server's GET /props, as far as it means something here. No paths.
std::string props_body(const Bundle& bundle, const EngineOptions& options, std::string_view model);

}  // namespace reprise
