// What of a refusal may stand in the log.
#include "api/refusal_log.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "base/log.h"

namespace reprise {
namespace {

constexpr std::size_t kParamBytesMax = 128;

// Fields whose members' names are the client's.
constexpr std::array<std::string_view, 5> kOpenFields = {"chat_template_kwargs", "logit_bias",
                                                         "metadata", "parameters", "schema"};

constexpr std::array<std::string_view, 7> kMethods = {"GET",   "HEAD",   "POST",   "PUT",
                                                      "PATCH", "DELETE", "OPTIONS"};

std::string_view loggable_method(std::string_view method) {
  return std::ranges::find(kMethods, method) == kMethods.end() ? "(another method)" : method;
}

void write_line(std::string_view method, std::string_view path, const ApiError& error) {
  const std::string param = loggable_param(error.param);
  spdlog::info("refused {} {}: {} {}{}{}", method, path, error.status, error.code,
               param.empty() ? "" : " ", param);
}

}  // namespace

std::string loggable_param(std::string_view param) {
  std::string out;
  while (!param.empty()) {
    const std::string_view step = param.substr(0, param.find('.'));
    param.remove_prefix(std::min(param.size(), step.size() + 1));
    const bool is_plain = std::ranges::all_of(step, [](char letter) {
      return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
             (letter >= '0' && letter <= '9') || letter == '_' || letter == '-' || letter == '[' ||
             letter == ']';
    });
    if (!is_plain || out.size() + step.size() >= kParamBytesMax) break;
    const bool is_first = out.empty();
    if (!is_first) out += '.';
    out += step;
    // llama-server's json_schema is the schema itself.
    const std::string_view name = step.substr(0, step.find('['));
    const bool is_open = std::ranges::find(kOpenFields, name) != kOpenFields.end();
    if (is_open || (is_first && name == "json_schema")) break;
  }
  return out;
}

void log_refusal(Endpoint endpoint, const ApiError& error, std::string_view method) {
  const std::string methods =
      method.empty() ? route_methods(endpoint) : std::string(loggable_method(method));
  write_line(methods, route_path(endpoint), error);
}

void log_refusal(std::string_view method, std::string_view path, const ApiError& error) {
  write_line(loggable_method(method), loggable_path(path), error);
}

void log_refusal(int status, std::string_view code) {
  spdlog::info("refused a request that could not be read: {} {}", status, code);
}

}  // namespace reprise
