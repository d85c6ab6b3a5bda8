// Grammars for whole replies, in the Lark dialect of llguidance: JSON by a schema, calls of tools
// as the format writes them, thoughts before both where the format has them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "text/reply_parser.h"
#include "text/tokenizer.h"

namespace reprise {

// A function that may be called. `parameters` is its JSON schema; where it is not strict, keywords
// that no grammar can hold are hints for the model, else they are errors.
struct ToolSpec {
  std::string name;
  JsonObject parameters;
  bool is_strict = true;
};

enum class ToolChoice : std::uint8_t {
  none,
  automatic,  // text, calls, or both; a call that begins is held to its schema
  required,   // at least one call, and no text
};

struct ReplyGrammarOptions {
  ReplyFormat format = ReplyFormat::plain;
  bool has_reasoning = false;  // thoughts may come first
  bool in_reasoning = false;   // the prompt's end has opened them
  // The prompt ends inside a text that the reply goes on with: only for automatic calls, in a
  // format whose calls follow text.
  bool in_content = false;
  // Says which of the format's marks are special tokens; null: those are spelled as text.
  const Tokenizer* tokenizer = nullptr;
};

// The grammar of a reply that calls tools. `answer`: the schema of an answer that calls none (null:
// any text). Errors: invalid_argument (a name that the format cannot
// write, a wrong schema), unsupported (a keyword of a schema), exhausted (too large); the message
// names the function and the place in its schema.
Result<std::string> tool_grammar(const ReplyGrammarOptions& options,
                                 std::span<const ToolSpec> tools, ToolChoice choice, bool parallel,
                                 const JsonObject* answer = nullptr);

// The grammar of a reply that is one JSON value by this schema ({}: any; json_object: {"type":
// "object"}). Errors: as above.
Result<std::string> json_grammar(const ReplyGrammarOptions& options, const JsonObject& schema);

}  // namespace reprise
