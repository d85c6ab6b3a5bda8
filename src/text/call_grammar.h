// Rules for calls of functions as the formats write them. A part of the reply grammars.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/lark_writer.h"
#include "text/reply_grammar.h"

namespace reprise {

// A function whose schema was checked: always one of an object.
struct CheckedTool {
  std::string name;
  JsonValue parameters;
};

// Errors: invalid_argument (a name, a schema), unsupported, exhausted; they name the function.
Result<std::vector<CheckedTool>> check_tools(std::span<const ToolSpec> tools);

// Each gives an expression for one call, but for python_calls.
// {"name": "f", "arguments": {...}} with white space where models put it; `arguments` is the key's
// name. Nothing around it.
std::string json_call(LarkWriter& writer, std::span<const CheckedTool> tools,
                      std::string_view arguments);
// [f(a=1, b="x"), ...], all of them; of functions and arguments that Python can name. Empty: there
// is none.
std::string python_calls(LarkWriter& writer, std::span<const CheckedTool> tools, bool parallel);
// call:f{a:1,b:<|"|>x<|"|>}
std::string gemma4_call(LarkWriter& writer, std::span<const CheckedTool> tools);
// to=f<|message|><atem:function_calls> ... </atem:function_calls>
std::string muse_call(LarkWriter& writer, std::span<const CheckedTool> tools);

}  // namespace reprise
