// How families write thoughts and tool calls into their replies, taken apart as the text arrives.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace reprise {

// Arguments of a model's calls: an open object may repeat a name, and a string may hold NUL;
// grammars cannot tell. The last one of a name counts.
inline constexpr JsonLimits kCallLimits{.takes_duplicates = true, .takes_nul = true};

// Named by the first family that wrote so.
enum class ReplyFormat : std::uint8_t {
  plain,   // text only
  hermes,  // <tool_call>{"name", "arguments"}</tool_call>; <think>...</think> (Qwen, AFMoE, ours)
  llama3,  // {"name", "parameters"}, after <|python_tag|> or alone
  llama4,  // [name(argument=value, ...)], or as llama3
  gemma4,  // <|tool_call>call:name{key:value}<tool_call|>; <|channel>thought ...<channel|>
  muse,    // <atem:function_calls> ...; " to=self<|message|>" thoughts <|eom|>
};

// What a chat template's text says about the replies that follow it.
struct ReplyStyle {
  ReplyFormat format = ReplyFormat::plain;
  bool renders_tools = false;  // the template shows tools to the model; else: text/tool_prompt.h
  bool has_reasoning = false;  // replies may begin with thoughts
  std::string_view thinking_name;  // its variable that turns thinking on or off; empty: none
};
// An empty source stands for the family's built-in template. A template that writes calls in a
// syntax that we do not read counts as one that renders no tools.
ReplyStyle detect_reply_style(std::string_view template_source, std::string_view family_tag);

// Whether a reply may have calls behind text; else they are all of it.
bool calls_follow_text(ReplyFormat format);

// Whether the end of a rendered prompt has opened thoughts that the reply goes on with.
bool opens_reasoning(ReplyFormat format, std::string_view prompt);

// A piece of a reply. The pieces of one kind and call, put together, do not depend on how the text
// was cut.
struct ReplyPart {
  enum class Kind : std::uint8_t {
    content,
    reasoning,
    tool_name,       // a call begins; text is the function's name
    tool_arguments,  // of the newest call: more of its JSON text
  };
  Kind kind = Kind::content;
  std::string text;
};

struct ReplyParserOptions {
  bool has_tools = false;     // calls are looked for; else they are text
  bool in_reasoning = false;  // the prompt's end has opened the thoughts
  bool in_content = false;    // the prompt ends inside the text that the reply goes on with
  std::vector<std::string> tool_names = {};
  // The functions' JSON schemas, one a name; a format without quotes (muse) takes the types of
  // values from them. Empty: a value that reads as JSON is JSON.
  std::vector<JsonObject> tool_parameters = {};
  // A grammar holds the calls to their syntax: their arguments go out as they arrive, and whatever
  // breaks them off (an error, the reply's end) ends the call where it stands. Else a call goes out
  // when it is whole and well-formed.
  bool calls_are_constrained = false;
  // A grammar lets nothing but thoughts and calls through (a call is required): whatever else there
  // seems to be is a part of a call that was cut off, and nobody's text.
  bool has_only_calls = false;
};

// Takes the text of a reply piece by piece. Nothing that a model writes is an error: what is no
// well-formed call of a known function comes out as content, character for character (markers that
// are special tokens by their spelling), but where only calls may come. Newlines that templates put
// around thoughts and calls belong to neither. Linear time; holds back at most the beginning of a
// marker, whitespace, and a call that is not whole.
class ReplyParser {
 public:
  virtual ~ReplyParser() = default;
  virtual void push(std::string_view text, std::vector<ReplyPart>& parts) = 0;
  // A special token, which has no text of its own, by its spelling: a marker of the format, or
  // nothing.
  virtual void push_special(std::string_view spelling, std::vector<ReplyPart>& parts) = 0;
  virtual void finish(std::vector<ReplyPart>& parts) = 0;
};

std::unique_ptr<ReplyParser> make_reply_parser(ReplyFormat format, ReplyParserOptions options);

}  // namespace reprise
