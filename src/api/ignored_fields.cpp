// Which names may be repeated, and what their client meant.
#include "api/ignored_fields.h"

#include <algorithm>

#include <fmt/core.h>

#include "api/openai_fields.h"
#include "api/responses_request.h"
#include "base/log.h"
#include "base/nearest.h"

namespace reprise {
namespace {

constexpr std::size_t kLoggedMax = 1000;  // names that the log mentions
constexpr std::size_t kHeaderNamesMax = 16;
constexpr std::size_t kHeaderBytesMax = 512;
constexpr std::size_t kNameBytesMax = 64;
constexpr std::size_t kGuessedBytesLeast = 4;  // shorter names are near to anything

// Member names come from the client: only plain ones are repeated.
bool is_plain(std::string_view name) {
  return name.size() <= kNameBytesMax && std::ranges::all_of(name, [](char letter) {
           return letter > ' ' && letter < 0x7F && letter != ',' && letter != '"' && letter != '\\';
         });
}

JsonObject request_schema(Endpoint endpoint, const Limits& limits) {
  switch (endpoint) {
    case Endpoint::completions:
      return completion_request_schema(limits);
    case Endpoint::llama_completion:
      return llama_completion_request_schema(limits);
    case Endpoint::responses:
    case Endpoint::response_tokens:
      return responses_request_schema(limits);
    case Endpoint::tokenize:
      return tokenize_request_schema(limits);
    case Endpoint::detokenize:
      return detokenize_request_schema(limits);
    default:
      return chat_request_schema(limits);
  }
}

// Empty: nothing is near, or the name is a member of a field.
std::string probably_meant(Endpoint endpoint, const std::string& name, const Limits& limits) {
  if (name.size() < kGuessedBytesLeast || name.find_first_of(".[") != std::string::npos) return {};
  std::vector<std::string> fields;
  const JsonObject schema = request_schema(endpoint, limits);
  for (const auto& field : schema.at("properties").as_object()) fields.emplace_back(field.key());
  return nearest_word(name, fields);
}

}  // namespace

HeaderList ignored_header(const std::vector<std::string>& names) {
  std::string value;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (name.empty() || !is_plain(name)) continue;
    if (count == kHeaderNamesMax || value.size() + name.size() + 2 > kHeaderBytesMax) break;
    if (count++ > 0) value += ", ";
    value += name;
  }
  if (value.empty()) return {};
  return {{"x-reprise-ignored", std::move(value)}};
}

void IgnoredFields::log(Endpoint endpoint, const std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) {
    if (names_.size() >= kLoggedMax) return;
    const bool is_shown = is_plain(name);
    const std::string shown = is_shown ? name : fmt::format("(a name of {} bytes)", name.size());
    if (!names_.insert(shown).second) continue;
    const std::string meant = is_shown ? probably_meant(endpoint, name, limits_) : std::string();
    const std::string guess = meant.empty() ? "" : fmt::format(", did you mean {}?", meant);
    spdlog::info("unknown request field {}: ignored{}", shown, guess);
  }
}

void IgnoredFields::log_tools(const std::vector<std::string>& types) {
  const std::lock_guard lock(mutex_);
  for (const std::string& type : types) {
    if (types_.insert(type).second)
      spdlog::info("tool of type {}: left out, nothing runs it here", type);
  }
}

}  // namespace reprise
