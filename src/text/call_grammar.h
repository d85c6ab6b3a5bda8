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

// A function whose schema was checked: always one of an object. It asks llguidance for the one
// spelling of JSON that templates render calls in: Python's json.dumps.
struct CheckedTool {
  std::string name;
  JsonValue parameters;
  bool is_strict = true;
};

// Errors: invalid_argument (a name, a schema), unsupported, exhausted; they name the function.
Result<std::vector<CheckedTool>> check_tools(std::span<const ToolSpec> tools);

// Each gives an expression for one call, but for python_calls. What they write is what templates
// render: a call in the history is the text that the model wrote. Where a syntax cannot be held to
// all of a schema, it is held to less; for strict functions this is an error (unsupported; it names
// the function and the place).
// {"name": "f", "arguments": {...}}; `arguments` is the key's name. Nothing around it.
std::string json_call(LarkWriter& writer, std::span<const CheckedTool> tools,
                      std::string_view arguments);
// [f(a=1, b="x"), ...], all of them; of functions and arguments that Python can name, and of strict
// ones that it can hold (json_call has the others). Empty: there is none.
std::string python_calls(LarkWriter& writer, std::span<const CheckedTool> tools, bool parallel);
// call:f{a:1,b:<|"|>x<|"|>}
Result<std::string> gemma4_call(LarkWriter& writer, std::span<const CheckedTool> tools);
// to=f<|message|><atem:function_calls> ... </atem:function_calls>
Result<std::string> muse_call(LarkWriter& writer, std::span<const CheckedTool> tools);

// Fails for a strict function with something that its grammar is not held to (`loose` names it).
Status hold_to(const CheckedTool& tool, const std::string& loose);

}  // namespace reprise
