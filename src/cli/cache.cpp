// `reprise cache`: a running server's prompt cache, shown as a tree or emptied.
#include <string>

#include <fmt/core.h>

#include "base/json.h"
#include "base/printable.h"
#include "cli/cache_text.h"
#include "cli/commands.h"
#include "cli/stack.h"
#include "http/client.h"

namespace reprise {
namespace {

Result<HttpAddress> server_address(const Options& options) {
  if (!options.url.empty()) {
    Result<HttpAddress> address = HttpAddress::parse(options.url);
    if (!address) return fail(address.error().code, address.error().message, "--url");
    return address;
  }
  if (options.port == 0)
    return fail(Errc::invalid_argument, "got 0, expected the running server's port", "--port");
  return HttpAddress{options.host, static_cast<std::uint16_t>(options.port), {}};
}

// "?cache_salt=..." with every other byte escaped (RFC 3986 section 2.1).
std::string salt_query(std::string_view salt) {
  if (salt.empty()) return {};
  std::string query = "?cache_salt=";
  for (const char letter : salt)
    query += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  return query;
}

// The message of OpenAI's error form, or the body's beginning.
std::string error_message(const std::string& body) {
  const Result<JsonValue> value = parse_json(body);
  if (value && value->is_object()) {
    const JsonValue* error = value->get_object().if_contains("error");
    const JsonValue* message = error != nullptr && error->is_object()
                                   ? error->get_object().if_contains("message")
                                   : nullptr;
    if (message != nullptr && message->is_string())
      return printable(std::string_view(message->get_string()));
  }
  return printable(std::string_view(body).substr(0, 100));
}

class CacheClient {
 public:
  CacheClient(HttpAddress address, const Options& options)
      : address_(std::move(address)),
        query_(salt_query(options.cache_salt)),
        key_(options.api_keys.empty() ? std::string() : options.api_keys.front()) {}

  // The body of a reply with status 200.
  Result<std::string> ask(const char* method, const char* path) const {
    HttpRequest request;
    request.method = method;
    request.path = path + query_;
    request.bearer_key = key_;
    TRY_ASSIGN(HttpReply reply, send_request(address_, request));
    if (!reply.is_success()) {
      return fail(Errc::io,
                  fmt::format("{} port {}: {} {}: got status {}: {}", address_.host, address_.port,
                              method, path, reply.status, error_message(reply.body)));
    }
    return std::move(reply.body);
  }

 private:
  HttpAddress address_;
  std::string query_;
  std::string key_;
};

Result<std::string> cache_report(const Options& options) {
  TRY_ASSIGN(HttpAddress address, server_address(options));
  const CacheClient client(std::move(address), options);
  if (options.reset) {
    TRY_ASSIGN(const std::string outcome, client.ask("POST", "/v1/cache/reset"));
    if (options.json) return outcome + "\n";
    return reset_text(outcome);
  }
  TRY_ASSIGN(const std::string tree, client.ask("GET", "/v1/cache/tree"));
  if (options.json) return tree + "\n";
  TRY_ASSIGN(const std::string stats, client.ask("GET", "/v1/cache/stats"));
  return cache_text(stats, tree);
}

}  // namespace

int run_cache(const Options& options) {
  const Result<std::string> text = cache_report(options);
  if (!text) return report(text.error());
  fmt::print("{}", *text);
  return 0;
}

}  // namespace reprise
