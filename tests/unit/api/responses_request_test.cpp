// POST /v1/responses: what is read, and what is refused with which field and code.
#include "api/responses_request.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "api/json_writer.h"
#include "base/json.h"

namespace reprise {
namespace {

using Kind = ResponseItem::Kind;

ApiResult<ResponsesRequest> parse(const std::string& members) {
  return parse_responses_request("{" + members + "}");
}

ResponsesRequest parsed(const std::string& members) {
  ApiResult<ResponsesRequest> request = parse(members);
  EXPECT_TRUE(request) << members << ": " << (request ? "" : request.error().message);
  return request ? std::move(*request) : ResponsesRequest();
}

std::vector<ChatMessage> messages_of(const std::string& members) {
  const ResponsesRequest request = parsed(members);
  const auto messages =
      response_messages(request.extras.instructions.value_or(""), request.input, 0);
  EXPECT_TRUE(messages) << (messages ? "" : messages.error().message);
  return messages ? *messages : std::vector<ChatMessage>();
}

std::string shown(const std::vector<ChatMessage>& messages) {
  std::string text;
  for (const ChatMessage& message : messages) {
    text += fmt::format("{}[{}|{}", message.role, message.reasoning, message.content);
    for (const ToolCall& call : message.tool_calls) {
      text += fmt::format("|{} {}{}", call.id, call.name, to_json(call.arguments));
    }
    if (!message.tool_call_id.empty()) {
      text += fmt::format("|{} {}", message.tool_call_id, message.name);
    }
    text += "] ";
  }
  return text;
}

TEST(ResponsesRequest, DefaultsAreOpenAis) {
  const ResponsesRequest request = parsed(R"("model":"m","input":"Hi")");
  EXPECT_EQ(request.chat.fields.model, "m");
  ASSERT_EQ(request.input.size(), 1U);
  EXPECT_EQ(request.input[0].role, "user");
  EXPECT_EQ(request.input[0].texts, std::vector<std::string>{"Hi"});
  EXPECT_TRUE(request.extras.store);
  EXPECT_FALSE(request.extras.instructions);
  EXPECT_FALSE(request.chat.fields.max_tokens);
  EXPECT_EQ(request.chat.fields.top_logprobs, -1);
  EXPECT_EQ(request.chat.fields.sampling.temperature, 1.0);
  EXPECT_TRUE(request.chat.tools.specs.empty());
  EXPECT_EQ(request.extras.tools.shown_json, "[]");
  EXPECT_EQ(request.extras.tool_choice_json, "\"auto\"");
}

TEST(ResponsesRequest, ReadsItsOwnFields) {
  const ResponsesRequest request = parsed(
      R"("input":"x","instructions":"Be brief","max_output_tokens":7,"temperature":0.5,)"
      R"("top_p":0.25,"top_logprobs":3,"include":["message.output_text.logprobs"],)"
      R"("metadata":{"a":"b"},"user":"u","prompt_cache_key":"k","safety_identifier":"s",)"
      R"("store":false,"stream":true,"truncation":"disabled","background":false,)"
      R"("previous_response_id":"resp_1","reasoning":{"effort":"low","summary":"auto"},)"
      R"("service_tier":"auto","cache_salt":"salt","seed":5,"top_k":4,"min_p":0.1,)"
      R"("text":{"format":{"type":"text"},"verbosity":"medium"},"parallel_tool_calls":false)");
  const GenerationFields& fields = request.chat.fields;
  EXPECT_EQ(request.extras.instructions, "Be brief");
  EXPECT_EQ(fields.max_tokens, 7);
  EXPECT_EQ(fields.sampling.temperature, 0.5);
  EXPECT_EQ(fields.sampling.top_p, 0.25);
  EXPECT_EQ(fields.sampling.top_k, 4);
  EXPECT_EQ(fields.sampling.min_p, 0.1);
  EXPECT_EQ(fields.sampling.seed, 5U);
  EXPECT_EQ(fields.top_logprobs, 3);
  EXPECT_EQ(fields.cache_salt, "salt");
  EXPECT_TRUE(fields.stream);
  EXPECT_FALSE(request.extras.store);
  EXPECT_FALSE(request.chat.tools.parallel);
  EXPECT_EQ(request.extras.metadata_json, R"({"a":"b"})");
  EXPECT_EQ(request.extras.previous_response_id, "resp_1");
  EXPECT_EQ(request.extras.user, "u");
  EXPECT_EQ(request.chat.reasoning_effort, "low");
  EXPECT_TRUE(fields.unknown.empty()) << fields.unknown.front();
}

TEST(ResponsesRequest, AgentsMayAskForEncryptedThoughts) {
  const auto parsed = parse_responses_request(
      R"({"input":"x","include":["reasoning.encrypted_content"]})", Limits());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_FALSE(parsed->extras.include_logprobs);
}

TEST(ResponsesRequest, NullCountsAsAbsent) {
  const ResponsesRequest request =
      parsed(R"("input":"x","instructions":null,"tools":null,"tool_choice":null,"text":null,)"
             R"("conversation":null,"prompt":null,"max_tool_calls":null,"background":null,)"
             R"("include":null,"metadata":null,"store":null,"previous_response_id":null)");
  EXPECT_TRUE(request.extras.store);
  EXPECT_TRUE(request.chat.fields.unknown.empty());
}

TEST(ResponsesRequest, ReadsFormats) {
  EXPECT_FALSE(parsed(R"("input":"x","text":{"format":{"type":"text"}})").chat.schema);
  EXPECT_TRUE(parsed(R"("input":"x","text":{"format":{"type":"json_object"}})").chat.schema);
  const ResponsesRequest request =
      parsed(R"("input":"x","text":{"format":{"type":"json_schema","name":"n","strict":true,)"
             R"("schema":{"type":"object","properties":{"a":{"type":"integer"}}}}})");
  ASSERT_TRUE(request.chat.schema);
  EXPECT_TRUE(request.chat.schema->contains("properties"));
  EXPECT_NE(request.extras.text_json.find("json_schema"), std::string::npos);
}

TEST(ResponsesRequest, ItemsBecomeTheMessagesOfAChat) {
  EXPECT_EQ(shown(messages_of(
                R"("instructions":"I","input":[{"role":"developer","content":"D"},)"
                R"({"type":"message","role":"user","content":[{"type":"input_text","text":"a"},)"
                R"({"type":"input_text","text":"b"}]},{"role":"assistant","content":"c"}])")),
            "system[|I] system[|D] user[|a\nb] assistant[|c] ");
}

// Thoughts, text and calls of one turn are one message, as a chat client has it.
TEST(ResponsesRequest, ItemsOfATurnAreOneMessage) {
  const std::string call =
      R"({"type":"function_call","call_id":"c1","name":"f","arguments":"{\"x\":1}"},)";
  const std::string message =
      R"({"type":"message","id":"msg_1","status":"completed","role":"assistant",)"
      R"("content":[{"type":"output_text","text":"T","annotations":[],"logprobs":[]}]},)";
  const std::string thoughts = R"({"type":"reasoning","id":"rs_1","summary":[],)"
                               R"("content":[{"type":"reasoning_text","text":"R"}]},)";
  const std::string output = R"({"type":"function_call_output","call_id":"c1","output":"O"})";
  const std::string user = R"({"role":"user","content":"U"},)";
  EXPECT_EQ(shown(messages_of(R"("input":[)" + user + thoughts + message + call + output + "]")),
            "user[|U] assistant[R|T|c1 f{\"x\":1}] tool[|O|c1 f] ");
  EXPECT_EQ(shown(messages_of(R"("input":[)" + user + call + message + output + "]")),
            "user[|U] assistant[|T|c1 f{\"x\":1}] tool[|O|c1 f] ");
  EXPECT_EQ(shown(messages_of(R"("input":[)" + message + message + user + thoughts + call + output +
                              "]")),
            "assistant[|T] assistant[|T] user[|U] assistant[R||c1 f{\"x\":1}] tool[|O|c1 f] ");
  EXPECT_EQ(shown(messages_of(R"("input":[)" + call + output + "," + thoughts + message +
                              R"({"role":"user","content":"V"}])")),
            "assistant[||c1 f{\"x\":1}] tool[|O|c1 f] assistant[R|T] user[|V] ");
}

TEST(ResponsesRequest, OutputsMayBeParts) {
  EXPECT_EQ(shown(messages_of(
                R"("input":[{"type":"function_call","call_id":"c","name":"f","arguments":""},)"
                R"({"type":"function_call_output","call_id":"c","output":[{"type":"input_text",)"
                R"("text":"p"}]}])")),
            "assistant[||c f{}] tool[|p|c f] ");
}

// As chat has them: an assistant's parts may be refusals, and are shown as such again.
TEST(ResponsesRequest, AnAssistantMayHaveRefused) {
  const std::string members =
      R"("input":[{"role":"assistant","content":[{"type":"refusal","refusal":"No."},)"
      R"({"type":"output_text","text":"Sorry."}]},{"role":"user","content":"x"}])";
  EXPECT_EQ(shown(messages_of(members)), "assistant[|No.\nSorry.] user[|x] ");
  JsonWriter json;
  append_response_item(json, parsed(members).input[0]);
  EXPECT_EQ(json.take(),
            R"({"id":"","type":"message","role":"assistant","content":[)"
            R"({"type":"refusal","refusal":"No."},{"type":"output_text","annotations":[],)"
            R"("logprobs":[],"text":"Sorry."}],"status":"completed"})");
  EXPECT_EQ(parse(R"("input":[{"role":"user","content":[{"type":"refusal","refusal":"n"}]}])")
                .error()
                .param,
            "input[0].content[0].type");
  EXPECT_EQ(parse(R"("input":[{"role":"assistant","content":[{"type":"refusal","text":"n"}]}])")
                .error()
                .param,
            "input[0].content[0].refusal");
}

// Every response object shows these again, a stream's three times.
TEST(ResponsesRequest, WhatIsShownAgainIsBounded) {
  Limits limits;
  limits.response_echo_bytes_max = 200;
  const std::string filler(200, 'f');
  const std::vector<std::pair<std::string, std::string>> refused = {
      {R"("text":{"format":{"type":"text"},"more":")" + filler + "\"}", "text"},
      {R"("text":{"format":{"type":"json_schema","name":"n","schema":{},"description":")" + filler +
           "\"}}",
       "text"},
      {R"("tools":[{"type":"function","name":"f","description":")" + filler + "\"}]", "tools"},
      {R"("tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f",)"
       R"("more":")" +
           filler + "\"}",
       "tool_choice"}};
  for (const auto& [members, param] : refused) {
    const auto request = parse_responses_request(R"({"input":"x",)" + members + "}", limits);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.error().param, param) << members;
    EXPECT_NE(request.error().message.find("at most 200"), std::string::npos)
        << request.error().message;
    EXPECT_TRUE(parse(R"("input":"x",)" + members)) << members;
  }
  EXPECT_EQ(parse(R"("input":"x","text":{"format":{"type":"json_schema","name":"n","schema":{},)"
                  R"("description":")" +
                  std::string(Limits().schema_bytes_max + 1, 'd') + "\"}}")
                .error()
                .param,
            "text.format.description");
}

TEST(ResponsesRequest, AnOutputNeedsItsCall) {
  const ResponsesRequest request =
      parsed(R"("input":[{"type":"function_call_output","call_id":"c","output":"o"}])");
  const auto messages = response_messages("", request.input, 0);
  ASSERT_FALSE(messages);
  EXPECT_EQ(messages.error().status, 400);
  EXPECT_EQ(messages.error().param, "input[0].call_id");
}

// Agents go on after a call that max_tokens cut off, with what went wrong as its output.
TEST(ResponsesRequest, ACallThatWasCutOffIsHistory) {
  ResponseItem cut;
  cut.kind = Kind::function_call;
  cut.state = ResponseItem::State::incomplete;
  cut.call_id = "c";
  cut.name = "f";
  cut.arguments = "{\"a\":";
  const auto messages = response_messages("", std::vector<ResponseItem>{cut}, 1);
  ASSERT_TRUE(messages);
  const JsonObject expected{{"malformed_arguments", "{\"a\":"}};
  EXPECT_EQ(messages->at(0).tool_calls.at(0).arguments, expected);
}

struct Refusal {
  std::string members, param, code;
};

TEST(ResponsesRequest, RefusesWithTheFieldsPath) {
  const std::string message = R"("input":[{"role":"user","content":"x"},)";
  const std::vector<Refusal> refusals = {
      {R"("model":"m")", "input", "missing_required_parameter"},
      {R"("input":5)", "input", "invalid_type"},
      {R"("input":[])", "input", "invalid_value"},
      {R"("input":[5])", "input[0]", "invalid_type"},
      {R"("input":[{"content":"x"}])", "input[0].role", "missing_required_parameter"},
      {R"("input":[{"role":"user"}])", "input[0].content", "missing_required_parameter"},
      {R"("input":[{"role":"tool","content":"x"}])", "input[0].role", "invalid_value"},
      {R"("input":[{"role":5,"content":"x"}])", "input[0].role", "invalid_type"},
      {R"("input":[{"role":"user","content":5}])", "input[0].content", "invalid_type"},
      {R"("input":[{"role":"user","content":[]}])", "input[0].content", "invalid_value"},
      {R"("input":[{"type":5}])", "input[0].type", "invalid_type"},
      {R"("input":[{"type":"computer_call"}])", "input[0].type", "unsupported_parameter"},
      {message + R"({"role":"user","content":[{"type":"input_image","image_url":"u"}]}])",
       "input[1].content[0].type", "unsupported_parameter"},
      {message + R"({"role":"user","content":[{"type":"input_text"}]}])",
       "input[1].content[0].text", "missing_required_parameter"},
      {message + R"({"role":"user","content":[{"type":"input_text","text":5}]}])",
       "input[1].content[0].text", "invalid_type"},
      {message + R"({"role":"user","content":[{"text":"t"}]}])", "input[1].content[0].type",
       "missing_required_parameter"},
      {message + R"({"role":"assistant","content":[{"type":"input_text","text":"t"}]}])",
       "input[1].content[0].type", "unsupported_parameter"},
      {message + R"({"type":"function_call","name":"f","arguments":"{}"}])", "input[1].call_id",
       "missing_required_parameter"},
      {message + R"({"type":"function_call","call_id":"c","arguments":"{}"}])", "input[1].name",
       "missing_required_parameter"},
      {message + R"({"type":"function_call","call_id":"c","name":"f","arguments":{}}])",
       "input[1].arguments", "invalid_type"},
      {message + R"({"type":"function_call_output","call_id":"c"}])", "input[1].output",
       "missing_required_parameter"},
      {message + R"({"type":"function_call_output","call_id":"c","output":5}])", "input[1].output",
       "invalid_type"},
      {message + R"({"type":"reasoning","content":[{"type":"output_text","text":"t"}]}])",
       "input[1].content[0].type", "unsupported_parameter"},
      {message + R"({"type":"item_reference"}])", "input[1].id", "missing_required_parameter"},
      {R"("input":"x","max_output_tokens":0)", "max_output_tokens", "invalid_value"},
      {R"("input":"x","max_output_tokens":"7")", "max_output_tokens", "invalid_type"},
      {R"("input":"x","max_tokens":7)", "max_tokens", "unsupported_parameter"},
      {R"("input":"x","messages":[])", "messages", "unsupported_parameter"},
      {R"("input":"x","response_format":{"type":"text"})", "response_format",
       "unsupported_parameter"},
      {R"("input":"x","temperature":3)", "temperature", "invalid_value"},
      {R"("input":"x","top_logprobs":21)", "top_logprobs", "invalid_value"},
      {R"("input":"x","top_logprobs":2)", "top_logprobs", "invalid_value"},
      {R"("input":"x","include":["file_search_call.results"])", "include[0]",
       "unsupported_parameter"},
      {R"("input":"x","include":"message.output_text.logprobs")", "include", "invalid_type"},
      {R"("input":"x","tools":[{"type":"web_search"}])", "tools[0].type", "unsupported_parameter"},
      {R"("input":"x","tools":[{"type":"function"}])", "tools[0].name",
       "missing_required_parameter"},
      {R"("input":"x","tools":[{"type":"function","name":"f","parameters":5}])",
       "tools[0].parameters", "invalid_type"},
      {R"("input":"x","tool_choice":"sometimes")", "tool_choice", "invalid_value"},
      {R"("input":"x","tool_choice":"required")", "tool_choice", "invalid_value"},
      {R"("input":"x","tools":[{"type":"function","name":"f"}],)"
       R"("tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]})",
       "tool_choice.type", "unsupported_parameter"},
      {R"("input":"x","text":{"format":{"type":"grammar"}})", "text.format.type", "invalid_value"},
      {R"("input":"x","text":{"format":{"type":"json_schema","name":"n"}})", "text.format.schema",
       "missing_required_parameter"},
      {R"("input":"x","text":"json")", "text", "invalid_type"},
      {R"("input":"x","text":{"verbosity":"high"})", "text.verbosity", "unsupported_parameter"},
      {R"("input":"x","reasoning":{"effort":"huge"})", "reasoning.effort", "invalid_value"},
      {R"("input":"x","reasoning":"low")", "reasoning", "invalid_type"},
      {R"("input":"x","truncation":"auto")", "truncation", "unsupported_parameter"},
      {R"("input":"x","background":true)", "background", "unsupported_parameter"},
      {R"("input":"x","conversation":"conv_1")", "conversation", "unsupported_parameter"},
      {R"("input":"x","max_tool_calls":1)", "max_tool_calls", "unsupported_parameter"},
      {R"("input":"x","prompt":{"id":"p"})", "prompt", "unsupported_parameter"},
      {R"("input":"x","metadata":[])", "metadata", "invalid_type"},
      {R"("input":"x","metadata":{"a":1})", "metadata.a", "invalid_type"},
      {R"("input":"x","store":"yes")", "store", "invalid_type"},
      {R"("input":"x","previous_response_id":5)", "previous_response_id", "invalid_type"},
      {R"("input":"x","n":2)", "n", "unsupported_parameter"},
      {R"("input":"x","return_token_ids":true)", "return_token_ids", "unsupported_parameter"},
      {R"("input":"x","stream":true,"return_progress":true)", "return_progress",
       "unsupported_parameter"},
      {R"("input":"x","stream":1)", "stream", "invalid_type"},
  };
  for (const Refusal& refusal : refusals) {
    const ApiResult<ResponsesRequest> request = parse(refusal.members);
    ASSERT_FALSE(request) << refusal.members;
    EXPECT_EQ(request.error().status, 400) << refusal.members;
    EXPECT_EQ(request.error().param, refusal.param) << request.error().message;
    EXPECT_EQ(request.error().code, refusal.code) << request.error().message;
  }
}

TEST(ResponsesRequest, MetadataHasOpenAisBounds) {
  std::string pairs;
  for (int index = 0; index < 16; index++) pairs += fmt::format(R"("k{}":"v",)", index);
  pairs.pop_back();
  EXPECT_TRUE(parse(R"("input":"x","metadata":{)" + pairs + "}"));
  EXPECT_FALSE(parse(R"("input":"x","metadata":{)" + pairs + R"(,"more":"v"})"));
  std::string umlauts;  // of two bytes: characters count
  for (int letter = 0; letter < 512; letter++) umlauts += "\u00FC";
  EXPECT_TRUE(parse(R"("input":"x","metadata":{"a":")" + umlauts + "\"}"));
  EXPECT_FALSE(parse(R"("input":"x","metadata":{"a":")" + umlauts + "x\"}"));
  EXPECT_TRUE(parse(R"("input":"x","metadata":{")" + std::string(64, 'k') + R"(":"v"})"));
  EXPECT_FALSE(parse(R"("input":"x","metadata":{")" + std::string(65, 'k') + R"(":"v"})"));
}

TEST(ResponsesRequest, TheSchemaNamesEveryField) {
  const JsonObject schema = responses_request_schema({});
  const JsonObject& properties = schema.at("properties").as_object();
  for (const char* name :
       {"input", "instructions", "model", "max_output_tokens", "tools", "tool_choice", "text",
        "reasoning", "previous_response_id", "store", "stream", "metadata", "temperature"}) {
    EXPECT_TRUE(properties.contains(name)) << name;
  }
}

TEST(ResponsesRequest, TheSchemaOffersNothingThatIsRefused) {
  const JsonObject schema = responses_request_schema({});
  const JsonObject& properties = schema.at("properties").as_object();
  for (const char* name : {"n", "return_progress", "return_token_ids"}) {
    EXPECT_FALSE(properties.contains(name)) << name;
  }
  EXPECT_NE(to_json(properties.at("store")).find("boolean"), std::string::npos)
      << "the field of this API, not chat's that is ignored";
  EXPECT_NE(to_json(properties.at("metadata")).find("maxProperties"), std::string::npos);
}

}  // namespace
}  // namespace reprise
