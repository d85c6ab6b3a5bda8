// "tools" and "tool_choice" of POST /v1/responses: functions, functions in namespaces, and tools
// that OpenAI's servers run.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "api/field_table.h"
#include "api/openai_fields.h"

namespace reprise {

// A function of a namespace. The model knows it by `shown`, the client by the other two.
struct NamespacedFunction {
  std::string shown;
  std::string name_space;
  std::string name;
};

// The one name for a function of a namespace, in tools and in a history alike: both with "__"
// between them, unless the namespace ends so. No namespace: the function's own.
std::string shown_name(std::string_view name_space, std::string_view name);

// A tool that nobody runs here: the model is not offered it.
struct HostedTool {
  std::string param;  // "tools[4].type"
  std::string type;
};

struct ResponseTools {
  std::vector<NamespacedFunction> namespaced;
  std::vector<HostedTool> hosted;
  std::string shown_json = "[]";  // the tools that the model is offered, for the reply
};

// Adds the functions to `tools` under the names that the model shall know them by. Errors: types
// that are neither functions nor namespaces of them, nor hosted (unsupported_parameter); bad names;
// two functions that the model would know by the same one.
ApiStatus parse_response_tools(const FieldPlace& place, const JsonValue& value, Tools& tools,
                               ResponseTools& own);
// After the tools. Errors: also of a choice that may stand for a hosted tool.
ApiStatus parse_response_choice(const FieldPlace& place, const JsonValue& value,
                                const ResponseTools& own, Tools& tools);
// After both, also where neither was given: a request that has hosted tools and no others depends
// on them, unless nothing may be called.
ApiStatus check_hosted(const ResponseTools& own, const Tools& tools, bool may_call);

JsonObject response_tools_schema(const Limits& limits);
JsonObject response_choice_schema(const Limits& limits);

}  // namespace reprise
