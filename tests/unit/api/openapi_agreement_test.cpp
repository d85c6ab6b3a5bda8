// /openapi.json and the parsers agree: what a schema allows is taken, and what it does not is
// refused, for values at the bounds of every field of every table.
#include <array>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "api/openai_fields.h"
#include "api/responses_request.h"
#include "openai_parse_cases.h"
#include "schema_probe.h"

namespace reprise::testing {
namespace {

// What no schema of one field can say: refusals that tell of another field or of a value's inside.
constexpr std::array<std::string_view, 10> kBeyondSchemas = {
    "only allowed",                 // with stream, with logprobs, with messages ...
    "or 0 with echo",               // max_tokens
    ", but ",                       // min_tokens beside max_tokens, tool_choice without tools
    "expected the name of a tool",  // tool_choice
    "twice, expected each",         // tools, logit_bias
    "in an earlier message",        // tool_call_id
    "expected a token id",          // a name above the largest id
    "written as an integer",        // seed
    "expected the same",            // two names of one field
    "expected one of them",         // content and messages
};

bool is_beyond_schemas(std::string_view message) {
  return std::any_of(kBeyondSchemas.begin(), kBeyondSchemas.end(), [&](std::string_view phrase) {
    return message.find(phrase) != std::string_view::npos;
  });
}

// The error's message; empty: taken.
using Parse = std::function<std::string(std::string_view)>;

template <class Request>
Parse verdict_of(ApiResult<Request> (*parse)(std::string_view, const Limits&)) {
  return [parse](std::string_view body) {
    const ApiResult<Request> request = parse(body, Limits());
    return request ? std::string() : request.error().message;
  };
}

// Every field of the schema, with every value, in an else good request.
void expect_agreement(const JsonObject& schema, const JsonObject& good, const Parse& parse) {
  ASSERT_EQ(parse(to_json(good)), "");
  ASSERT_TRUE(is_inside(schema, good));
  int inside = 0, outside = 0;
  for (const auto& field : schema.at("properties").as_object()) {
    std::set<std::string> seen;
    for (const JsonValue& value : values_around(field.value().as_object())) {
      JsonObject request = good;
      request[field.key()] = value;
      const std::string text = to_json(request);
      if (!seen.insert(text).second) continue;
      const std::string refusal = parse(text);
      const bool is_allowed = is_inside(schema, request);
      (is_allowed ? inside : outside)++;
      if (is_allowed) {
        EXPECT_TRUE(refusal.empty() || is_beyond_schemas(refusal))
            << refusal << "\nallowed by the schema: " << text.substr(0, 400);
      } else {
        EXPECT_FALSE(refusal.empty())
            << "not allowed by the schema: " << field.key() << " " << to_json(value).substr(0, 400);
      }
    }
  }
  EXPECT_GT(inside, 5);
  EXPECT_GT(outside, 20);
}

JsonObject object_of(std::string_view json) {
  return parse_json(json).value().as_object();
}

TEST(OpenApiAgreement, Chat) {
  expect_agreement(chat_request_schema(Limits()), object_of(R"({"stream":true,"logprobs":true,
      "messages":[{"role":"user","content":"hi"}],
      "tools":[{"type":"function","function":{"name":"f"}}]})"),
                   verdict_of(parse_chat_request));
}

// Messages after one that made calls, so that answers have what they answer.
TEST(OpenApiAgreement, Messages) {
  const JsonObject schema = chat_request_schema(Limits());
  const JsonObject& list = schema.at("properties").at("messages").as_object();
  const JsonArray earlier = parse_json(R"([{"role":"user","content":"hi"},
      {"role":"assistant","tool_calls":[{"id":"f","function":{"name":"f","arguments":"{}"}}]}])")
                                .value()
                                .as_array();
  std::vector<JsonObject> starts;
  for (const char* start :
       {R"({"role":"user","content":"a"})", R"({"role":"assistant"})",
        R"({"role":"assistant","content":"a"})", R"({"role":"system"})",
        R"({"role":"assistant","reasoning_content":"a"})", R"({"role":"assistant","refusal":"a"})",
        R"({"role":"assistant","tool_calls":[]})", R"({"role":"tool","content":"a"})",
        R"({"role":"tool","content":"a","tool_call_id":"f"})",
        R"({"role":"user","content":[{"type":"refusal","refusal":"a"}]})",
        R"({"role":"assistant","content":[{"type":"refusal","refusal":"a"}]})",
        R"({"content":"a"})"}) {
    starts.push_back(object_of(start));
  }
  const JsonObject& message = list.at("items").as_object();
  for (const JsonObject& start : starts) {
    std::vector<JsonObject> messages = {start};
    for (const auto& field : message.at("properties").as_object()) {
      for (const JsonValue& value : values_around(field.value().as_object())) {
        messages.push_back(start);
        messages.back()[field.key()] = value;
      }
    }
    for (const JsonObject& each : messages) {
      const bool has_both = each.contains("reasoning") && each.contains("reasoning_content");
      if (has_both) continue;  // they must be equal
      JsonArray all = earlier;
      all.emplace_back(each);
      const auto request = parse_chat_request(to_json(JsonObject{{"messages", all}}));
      const std::string refusal = request ? "" : request.error().message;
      if (!is_inside(list, all)) {
        EXPECT_FALSE(request) << "not allowed by the schema: " << to_json(each).substr(0, 400);
      } else {
        EXPECT_TRUE(request || is_beyond_schemas(refusal))
            << refusal << "\nallowed by the schema: " << to_json(each).substr(0, 400);
      }
    }
  }
}

TEST(OpenApiAgreement, Responses) {
  expect_agreement(responses_request_schema(Limits()), object_of(R"({"input":"hi","stream":true,
      "include":["message.output_text.logprobs"],
      "tools":[{"type":"function","name":"f"}]})"),
                   verdict_of(parse_responses_request));
}

TEST(OpenApiAgreement, Completions) {
  expect_agreement(completion_request_schema(Limits()),
                   object_of(R"({"prompt":"hi","stream":true,"logprobs":1})"),
                   verdict_of(parse_completion_request));
  expect_agreement(llama_completion_request_schema(Limits()),
                   object_of(R"({"prompt":"hi","stream":true})"),
                   verdict_of(parse_llama_completion_request));
}

TEST(OpenApiAgreement, Tokens) {
  const JsonObject schema = tokenize_request_schema(Limits());
  const Parse parse = verdict_of(parse_tokenize_request);
  expect_agreement(schema, object_of(R"({"content":"hi"})"), parse);
  expect_agreement(schema, object_of(R"({"messages":[{"role":"user","content":"hi"}]})"), parse);
  for (const char* body : {"{}", R"({"content":null})", R"({"messages":null})", R"({"prompt":""})",
                           R"({"content":"a","messages":null})"}) {
    EXPECT_EQ(is_inside(schema, object_of(body)), parse(body).empty()) << body;
  }
  expect_agreement(detokenize_request_schema(Limits()), object_of(R"({"tokens":[1]})"),
                   verdict_of(parse_detokenize_request));
}

}  // namespace
}  // namespace reprise::testing
