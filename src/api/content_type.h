// Whether a body is what we read: JSON, by its own word.
#pragma once
#include <string_view>

namespace reprise {

// Of a Content-Type's value: none, a JSON type (application/json, */json, */*+json), or
// application/x-www-form-urlencoded, which curl says of everything that it is given with -d.
// Parameters are ignored. Web pages may send the last one unasked: what keeps them out is
// check_origin (api/cors.h), not the type.
bool is_json_content_type(std::string_view value);

}  // namespace reprise
