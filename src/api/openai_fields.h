// The tables of fields that several requests share, and the parts of requests that have a structure
// of their own.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/field_table.h"
#include "api/openai.h"

namespace reprise {

// ---- what all generating requests share

// temperature to penalties, without what is kept outside of SamplingParams (seed, breakers).
std::span<const Field<SamplingParams>> sampling_fields();
std::span<const Field<DryParams>> dry_fields();
// model, n, seed, stop, stream, cache_..., priority, timeout ...; without the limit of the reply's
// length and log probabilities, which every endpoint calls otherwise.
std::span<const Field<GenerationFields>> generation_fields();

// Reads all three tables, and what no row can say (fields that exclude each other). Fields of the
// endpoint's own are to be read after it, then comes finish_fields().
ApiResult<GenerationFields> parse_generation_fields(FieldReader& reader, const Limits& limits);
void add_generation_schema(JsonObject& object_schema, const Limits& limits);

// What a chat's prompt is made of besides its messages: tools, tool_choice, reasoning_effort,
// reasoning, chat_template_kwargs, add_generation_prompt, continue_final_message.
std::span<const Field<ChatRequest>> chat_prompt_fields();
// Whether the last message can be gone on with where the request, or that message's prefix, says
// so; after all fields. Errors: invalid_value.
ApiStatus settle_continued(ChatRequest& request);

// Refuses parameters that would change the answer and that nobody has read from `reader`, unless
// their value asks for nothing; what is unknown after that goes into `unknown`.
ApiStatus finish_fields(FieldReader& reader, std::vector<std::string>& unknown);

// min_tokens beside max_tokens; for requests that have read both.
ApiStatus check_token_counts(const GenerationFields& fields);

// The most tokens that a reply may have: 1 or more; -1, as other servers have it: no number, what
// fits. Errors: 0 and all else.
ApiResult<std::optional<Position>> read_length(const FieldPlace& place, const JsonValue& value);
inline constexpr std::string_view kLengthSchema =
    R"({"anyOf":[{"type":"integer","minimum":1,"maximum":2147483647},{"const":-1}]})";

// {"effort": "low"}, as the Responses API and others have it: the effort; empty: not given.
// Errors: a word that is none; unsupported_parameter for other ways to say how much is thought.
ApiResult<std::string> parse_reasoning_effort(const FieldPlace& place, const JsonValue& value);
JsonObject reasoning_schema(const Limits& limits);

// A list of token ids: 0 to the largest integer of 32 bits; the vocabulary is not known here.
ApiResult<std::vector<TokenId>> parse_token_ids(const FieldPlace& place, const JsonValue& value,
                                                std::size_t most);
JsonObject token_ids_schema();

// ---- messages

// "messages" of an OpenAI request: at least one. The tool messages' names are filled in from the
// calls that they answer; `prefix` becomes the place of the last message's "prefix" where that is
// true. Errors: 400 with the path of what is wrong.
ApiResult<std::vector<ChatMessage>> parse_messages(const FieldPlace& place, const JsonValue& value,
                                                   std::string& prefix);
JsonObject messages_schema(const Limits& limits);

// A type of part that has text, and the member that holds it: {"text", "text"}.
struct TextPart {
  std::string_view type, member;
};
// One part: the index of its kind among `kinds`, and its text.
struct ReadPart {
  std::size_t kind = 0;
  std::string text;
};
// {"type": TYPE, MEMBER: "..."}. Errors: unsupported_parameter for other types.
ApiResult<ReadPart> parse_part(const FieldPlace& place, const JsonValue& value,
                               std::span<const TextPart> kinds);
// A string, or a list of at least `least` such parts, whose texts are joined by line feeds as other
// servers do. Errors: as parse_part.
ApiResult<std::string> parse_text_content(const FieldPlace& place, const JsonValue& value,
                                          std::span<const TextPart> kinds, std::size_t least);

// ---- tools and formats

// "tools" of a chat request: adds definitions and specs; with any, the choice becomes automatic.
// Errors: types other than function (unsupported_parameter), bad or repeated names.
ApiStatus parse_tools(const FieldPlace& place, const JsonValue& value, Tools& tools);
// "tool_choice", after the tools: none leaves no specs, a named function only its own.
ApiStatus parse_tool_choice(const FieldPlace& place, const JsonValue& value, Tools& tools);

// The steps of both, for requests that write tools otherwise.

// One function, without its "type": what calls are held to, and what the template shows.
struct FunctionTool {
  ToolSpec spec;
  JsonObject definition;  // {"name", "description" ...}
};
ApiResult<FunctionTool> read_function(const FieldPlace& place, const JsonValue& object);
// Errors: there is one of this name.
ApiStatus add_function(const FieldPlace& place, FunctionTool function, Tools& tools);
// OpenAI's rule for names: letters, digits, _ and -.
ApiStatus check_name(const FieldPlace& place, std::string_view name, std::size_t bytes_max);
// A choice in one word: none, auto, required. Errors: any other value.
ApiStatus parse_choice_word(const FieldPlace& place, const JsonValue& value, Tools& tools);
// The one function that must be called. False: there is none of this name.
bool choose_function(std::string_view name, Tools& tools);
// Of "tools" and "tool_choice": an item's "type". Errors: it has none, or one that is no text.
ApiResult<std::string> read_tool_type(const FieldPlace& place, FieldReader& reader);

// How the schema of a reply is written: below a key of its own ({"type", "json_schema": {"name"}},
// as in chat requests), or beside "type" ({"type", "name"}, as in /v1/responses).
enum class Nesting : std::uint8_t { nested, flat };

// The schema that response_format (nested) or text.format (flat) asks for; nothing for text.
ApiResult<std::optional<JsonObject>> parse_reply_format(const FieldPlace& place,
                                                        const JsonValue& value, Nesting nesting);

// "PARAM: got 9 bytes as JSON, expected at most 8".
ApiStatus check_json_size(const FieldPlace& place, std::size_t bytes, std::size_t most);

// "chat_template_kwargs": an object within its limit.
ApiResult<JsonObject> parse_template_variables(const FieldPlace& place, const JsonValue& value);

// A schema of a reply: an object within its limit.
ApiResult<JsonObject> parse_reply_schema(const FieldPlace& place, const JsonValue& value);

// The schemas of these.
JsonObject tools_schema(const Limits& limits);
JsonObject function_schema(const Limits& limits);  // of read_function
JsonObject tool_choice_schema();
// A choice in one word, or in the form of `named`.
JsonObject tool_choice_schema_with(JsonObject named);
JsonObject reply_format_schema(const Limits& limits, Nesting nesting);

// ---- schemas of whole requests, for /openapi.json

JsonObject chat_request_schema(const Limits& limits);
JsonObject completion_request_schema(const Limits& limits);
JsonObject llama_completion_request_schema(const Limits& limits);
JsonObject tokenize_request_schema(const Limits& limits);
JsonObject detokenize_request_schema(const Limits& limits);

}  // namespace reprise
