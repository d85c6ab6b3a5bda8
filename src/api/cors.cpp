// Origins and Hosts as browsers write them: https://fetch.spec.whatwg.org, RFC 6454.
#include "api/cors.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>

#include <fmt/core.h>

namespace reprise {
namespace {

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool equals(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool is_address(int family, std::string_view text) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  return ::inet_pton(family, std::string(text).c_str(), address.data()) == 1;
}

// Whether no name server says where it is: localhost or an address, with or without a port.
bool is_plain_host(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return end != std::string_view::npos && is_address(AF_INET6, host.substr(1, end - 1));
  }
  const std::string_view name = host.substr(0, host.find(':'));
  return equals(name, "localhost") || is_address(AF_INET, name);
}

bool is_own(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equals(origin.substr(0, scheme.size()), scheme)) continue;
    return equals(origin.substr(scheme.size()), host) && is_plain_host(host);
  }
  return false;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char letter) {
    const char small = lower(letter);
    return (small >= 'a' && small <= 'z') || (small >= '0' && small <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(letter) != std::string_view::npos;
  });
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

ApiStatus check_origin(const HeaderList& headers, std::string_view allowed) {
  if (allowed == "*") return {};
  const auto host = std::ranges::find(headers, "host", &HeaderList::value_type::first);
  for (const auto& [name, origin] : headers) {
    if (name != "origin" || (!allowed.empty() && equals(origin, allowed))) continue;
    if (host != headers.end() && is_own(origin, host->second)) continue;
    return refuse(
        403, "origin_not_allowed",
        fmt::format("origin: got \"{}\", expected {}the server's own (localhost or its IP "
                    "address, and port); --cors-origin says which web pages may use this server",
                    clipped(origin), allowed.empty() ? "" : fmt::format("\"{}\" or ", allowed)));
  }
  return {};
}

std::string allowed_headers(std::string_view asked) {
  constexpr std::string_view kUsual = "authorization, content-type";
  constexpr std::size_t kBytesMax = 4096;
  if (asked.size() > kBytesMax) return std::string(kUsual);
  std::string names;
  while (!asked.empty()) {
    const std::string_view piece = asked.substr(0, asked.find(','));
    asked.remove_prefix(std::min(asked.size(), piece.size() + 1));
    const std::string_view name = trimmed(piece);
    if (!is_token(name)) return std::string(kUsual);
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names.empty() ? std::string(kUsual) : names;
}

}  // namespace reprise
