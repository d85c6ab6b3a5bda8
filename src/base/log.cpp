// The log's form.
#include "base/log.h"

#include <memory>

#include <fmt/core.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace reprise {

Status configure_log(std::string_view level) {
  const spdlog::level::level_enum parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") {
    return fail(
        Errc::invalid_argument,
        fmt::format("log level: got \"{}\", expected debug, info, warn, error or off", level),
        "log-level");
  }
  spdlog::drop_all();
  spdlog::set_default_logger(spdlog::stderr_color_mt("reprise"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(parsed);
  return {};
}

}  // namespace reprise
