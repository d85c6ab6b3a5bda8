// `reprise serve`: the engine behind the HTTP server, until a signal.
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>

#include <fmt/core.h>

#include "api/service.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/counted.h"
#include "cli/model_headers.h"
#include "cli/stack.h"
#include "cli/standard_output.h"
#include "http/server.h"
#include "kv/state_snapshot.h"

namespace reprise {
namespace {

std::string curl_line(const std::string& url, bool chat, bool key) {
  const std::string header = key ? " -H 'Authorization: Bearer YOUR_KEY'" : "";
  if (chat) {
    return fmt::format(
        "curl -s {}/v1/chat/completions{} -d '{{\"messages\":[{{\"role\":\"user\",\"content\":"
        "\"Say hello in five words.\"}}],\"temperature\":0}}'",
        url, header);
  }
  return fmt::format(
      "curl -s {}/v1/completions{} -d '{{\"prompt\":\"The capital of France is\",\"max_tokens\":16,"
      "\"temperature\":0}}'",
      url, header);
}

// IPv6 addresses stand in brackets (RFC 3986 section 3.2.2).
std::string base_url(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("http://{}:{}", host, port)
                                             : fmt::format("http://[{}]:{}", host, port);
}

// What SIGHUP does: takes the file's keys anew; a broken file changes nothing.
void read_keys_again(const Options& options, Service& service) {
  Result<ApiKeys> keys = ApiKeys::load(options.api_keys, options.api_key_file);
  if (!keys) {
    spdlog::error("the API keys stay as they were: {}", keys.error().message);
    return;
  }
  spdlog::info("{} from now on", counted(keys->size(), "API key"));
  service.reload_keys(std::move(*keys));
}

// Whether SIGHUP will mean that the terminal was closed: there is one, and nobody asked at the
// start that it be ignored (nohup).
bool hangs_on_terminal() {
  struct sigaction former = {};
  if (::sigaction(SIGHUP, nullptr, &former) != 0 || former.sa_handler == SIG_IGN) return false;
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return false;
  ::close(terminal);
  return true;
}

ServiceOptions service_options_from(const Options& options, ApiKeys keys) {
  ServiceOptions service;
  service.model_alias =
      options.alias.empty() ? std::filesystem::path(options.model).stem().string() : options.alias;
  service.api_keys = std::move(keys);
  service.allowed_origin = options.cors_origin;
  service.body_bytes_max = options.body_bytes_max;
  service.request_timeout_ms = std::int64_t{1000} * options.request_timeout_seconds;
  service.drain_timeout_ms = std::int64_t{1000} * options.drain_seconds;
  return service;
}

}  // namespace

int run_serve(const Options& options) {
  // A log whose reader left must not end the server, nor a SIGHUP before it serves, unless it says
  // that the terminal is gone.
  std::signal(SIGPIPE, SIG_IGN);
  const bool ends_with_terminal = options.api_key_file.empty() && hangs_on_terminal();
  if (!ends_with_terminal) std::signal(SIGHUP, SIG_IGN);
  if (const Status log = configure_log(options.log_level); !log) return report(log.error());
  Result<ApiKeys> keys = ApiKeys::load(options.api_keys, options.api_key_file);
  if (!keys) return report(keys.error());
  const bool needs_key = keys->size() > 0;
  // What would be refused after minutes of loading is refused before.
  const auto port = static_cast<std::uint16_t>(options.port);
  if (const Status free = Server::check_address(options.host, port); !free)
    return report(free.error());
  if (const Status fits = check_context_length(options); !fits) return report(fits.error());
  Result<Stack> stack = Stack::load(options);
  if (!stack) return report(stack.error());
  if (const Status started = stack->start_engine(options); !started) return report(started.error());
  using OwnedService = std::unique_ptr<Service>;
  const Result<OwnedService> made = unless_refused("the service", [&]() -> Result<OwnedService> {
    return std::make_unique<Service>(*stack->bundle, *stack->engine,
                                     service_options_from(options, std::move(*keys)));
  });
  if (!made) return report(made.error());
  Service& service = **made;

  ServerOptions server_options;
  server_options.host = options.host;
  server_options.port = port;
  if (!options.api_key_file.empty())
    server_options.on_hangup = [&] { read_keys_again(options, service); };
  std::unique_ptr<Server> server;
  bool hung_up = false;
  if (ends_with_terminal) {
    server_options.on_hangup = [&] {  // shell and kernel may both send one: that is one stop
      if (!std::exchange(hung_up, true)) server->stop();
    };
  }
  Result<std::unique_ptr<Server>> listening = Server::listen(service, server_options);
  if (!listening) return report(listening.error());
  server = std::move(*listening);

  const EngineOptions& engine = stack->engine->options();
  const std::string url = base_url(options.host, server->port());
  spdlog::info("context {} tokens, {} MiB for keys and values, prompt cache {}",
               engine.context_length, engine.kv_budget_bytes >> 20,
               !engine.cache.enabled                ? "off"
               : can_be_snapshotted(engine.kv_type) ? "on"
                                                    : "off (--kv-type int8 cannot be kept)");
  fmt::print("reprise serves {} at {}\n\n  {}\n\n", service.options().model_alias, url,
             curl_line(url, stack->bundle->has_chat_template(), needs_key));
  write_output({});
  server->run(true);
  spdlog::info("stopped");
  return 0;
}

}  // namespace reprise
