// "input" of POST /v1/responses.
#pragma once
#include <vector>

#include "api/field_table.h"
#include "api/responses_items.h"

namespace reprise {

// A text (a message of the user), or a list of items. Errors: 400 with the path of what is wrong;
// unsupported_parameter for items and parts that no text model has.
ApiStatus parse_response_input(const FieldPlace& place, const JsonValue& value,
                               std::vector<ResponseItem>& items);
JsonObject response_input_schema(const Limits& limits);

}  // namespace reprise
