// Which web pages may use the server. A browser says of nearly all that a page sends to another
// place, and of every POST, from which origin the page is; other clients say nothing of the kind.
#pragma once
#include <string>
#include <string_view>

#include "api/api_error.h"
#include "api/reply.h"

namespace reprise {

// A request that names an origin needs one that `allowed` allows ("": none, "*": all, or one), or
// the server's own: the request's Host, as localhost or an IP address. Other names of the own
// origin prove nothing, since a page's owner may let its name point here. No preflight keeps pages
// out by itself: simple POSTs go without.
// Errors: 403 origin_not_allowed.
ApiStatus check_origin(const HeaderList& headers, std::string_view allowed);

// For Access-Control-Allow-Headers: the names that a preflight asks for, where it asks for names,
// else those that every client sends. No more than 4 KiB are repeated.
std::string allowed_headers(std::string_view asked);

}  // namespace reprise
