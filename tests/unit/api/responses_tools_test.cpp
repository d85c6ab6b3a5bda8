// Tools of POST /v1/responses: functions, namespaces, and those that nobody runs here.
#include "api/responses_tools.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "api/json_writer.h"
#include "api/responses_request.h"
#include "base/json.h"

namespace reprise {
namespace {

const std::string kPlain = R"({"type":"function","name":"look"})";
const std::string kSearch = R"({"type":"web_search","external_web_access":false})";
const std::string kCalc =
    R"({"type":"namespace","name":"mcp__calc","description":"Sums.","tools":[)"
    R"({"type":"function","name":"add","description":"Adds.","strict":true,)"
    R"("parameters":{"type":"object","properties":{"a":{"type":"integer"}}}},)"
    R"({"type":"function","name":"look","description":"Looks."}]})";

std::string with_tools(const std::string& list, const std::string& choice = {}) {
  const std::string more = choice.empty() ? "" : ",\"tool_choice\":" + choice;
  return fmt::format(R"({{"input":"x","tools":[{}]{}}})", list, more);
}

ResponsesRequest parsed(const std::string& body) {
  ApiResult<ResponsesRequest> request = parse_responses_request(body);
  EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
  return request ? std::move(*request) : ResponsesRequest();
}

ApiError refused(const std::string& body) {
  const ApiResult<ResponsesRequest> request = parse_responses_request(body);
  EXPECT_FALSE(request) << body;
  return request ? ApiError() : request.error();
}

std::vector<std::string> names_of(const Tools& tools) {
  std::vector<std::string> names;
  for (const ToolSpec& spec : tools.specs) names.push_back(spec.name);
  return names;
}

using Names = std::vector<std::string>;

const JsonObject& function_at(const ResponsesRequest& request, std::size_t index) {
  return request.chat.tools.definitions.at(index).as_object().at("function").as_object();
}

TEST(ResponsesTools, FunctionsBecomeChatTools) {
  const ResponsesRequest request =
      parsed(with_tools(R"({"type":"function","name":"f","description":"d","strict":true,)"
                        R"("parameters":{"type":"object"}},{"type":"function","name":"g"})",
                        R"({"type":"function","name":"f"})"));
  ASSERT_EQ(request.chat.tools.definitions.size(), 2U);
  EXPECT_EQ(to_json(function_at(request, 0)),
            R"({"name":"f","description":"d","strict":true,"parameters":{"type":"object"}})");
  EXPECT_EQ(request.chat.tools.choice, ToolChoice::required);
  EXPECT_TRUE(request.chat.tools.is_named);
  EXPECT_EQ(names_of(request.chat.tools), Names{"f"});
  EXPECT_EQ(request.extras.tool_choice_json, R"({"type":"function","name":"f"})");
  EXPECT_EQ(parsed(with_tools(kPlain)).chat.tools.choice, ToolChoice::automatic);
  EXPECT_TRUE(request.chat.fields.unknown.empty()) << request.chat.fields.unknown.front();
}

// ---- namespaces

TEST(ResponsesTools, TheModelKnowsAFunctionOfANamespaceByOneName) {
  const ResponsesRequest request = parsed(with_tools(kPlain + "," + kCalc));
  const Tools& tools = request.chat.tools;
  EXPECT_EQ(names_of(tools), (Names{"look", "mcp__calc__add", "mcp__calc__look"}));
  EXPECT_EQ(tools.choice, ToolChoice::automatic);
  EXPECT_EQ(tools.places, (Names{"tools[0]", "tools[1].tools[0]", "tools[1].tools[1]"}));
  EXPECT_TRUE(tools.specs[1].is_strict);
  EXPECT_EQ(to_json(tools.specs[1].parameters),
            R"({"type":"object","properties":{"a":{"type":"integer"}}})");
  // What the namespace is for is said once.
  EXPECT_EQ(
      to_json(function_at(request, 1)),
      R"({"name":"mcp__calc__add","description":"mcp__calc__*: Sums.\n\nAdds.",)"
      R"("strict":true,"parameters":{"type":"object","properties":{"a":{"type":"integer"}}}})");
  EXPECT_EQ(to_json(function_at(request, 2)),
            R"({"name":"mcp__calc__look","description":"Looks."})");
  EXPECT_EQ(request.extras.tools.shown_json, "[" + kPlain + "," + kCalc + "]");
  EXPECT_TRUE(request.chat.fields.unknown.empty()) << request.chat.fields.unknown.front();
}

TEST(ResponsesTools, ANamespaceNeedsNoDescription) {
  for (const char* description : {"", R"("description":"",)", R"("description":null,)"}) {
    const ResponsesRequest request = parsed(with_tools(
        fmt::format(R"({{"type":"namespace","name":"n",{}"tools":[{}]}})", description, kPlain)));
    EXPECT_EQ(to_json(function_at(request, 0)), R"({"name":"n__look"})");
  }
  const ResponsesRequest request = parsed(
      with_tools(R"({"type":"namespace","name":"n","description":"D","tools":[)" + kPlain + "]}"));
  EXPECT_EQ(to_json(function_at(request, 0)), R"({"name":"n__look","description":"n__*: D"})");
}

TEST(ResponsesTools, OneNameStandsForOneFunction) {
  EXPECT_EQ(shown_name("", "f"), "f");
  EXPECT_EQ(shown_name("n", "f"), "n__f");
  EXPECT_EQ(shown_name("mcp__n__", "f"), "mcp__n__f");
  const auto space = [](const char* name, const char* function) {
    return fmt::format(
        R"({{"type":"namespace","name":"{}","tools":[{{"type":"function","name":"{}"}}]}})", name,
        function);
  };
  const std::vector<std::pair<std::string, std::string>> colliding = {
      {space("a", "b__c"), space("a__b", "c")},
      {space("a", "b"), space("a__", "b")},
      {space("a", "b"), space("a", "b")},
      {R"({"type":"function","name":"a__b"})", space("a", "b")},
  };
  for (const auto& [one, other] : colliding) {
    const ApiError error = refused(with_tools(one + "," + other));
    EXPECT_EQ(error.param, "tools[1].tools[0].name");
    EXPECT_EQ(error.code, "invalid_value");
    EXPECT_NE(error.message.find("twice, expected each name once"), std::string::npos);
  }
  // The same function in two namespaces, and a namespace in two parts, are no trouble.
  EXPECT_EQ(
      names_of(parsed(with_tools(space("a", "b") + "," + space("c", "b") + "," + space("a", "c")))
                   .chat.tools),
      (Names{"a__b", "c__b", "a__c"}));
}

TEST(ResponsesTools, NamesMayBeAsLongAsCodexMakesThem) {
  const auto space = [](std::size_t name, std::size_t function) {
    return with_tools(fmt::format(
        R"({{"type":"namespace","name":"{}","tools":[{{"type":"function","name":"{}"}}]}})",
        std::string(name, 'n'), std::string(function, 'f')));
  };
  EXPECT_EQ(names_of(parsed(space(82, 44)).chat.tools).front().size(), 128U);
  const ApiError error = refused(space(82, 45));
  EXPECT_EQ(error.param, "tools[0].tools[0].name");
  EXPECT_EQ(error.message,
            "tools[0].tools[0].name: got 129 bytes with its namespace, expected at most 128");
  EXPECT_EQ(refused(space(129, 1)).param, "tools[0].name");
  EXPECT_EQ(refused(space(1, 65)).param, "tools[0].tools[0].name");
}

TEST(ResponsesTools, FunctionsAreCountedWithThoseOfNamespaces) {
  std::string functions;
  for (int index = 0; index < 128; index++) {
    functions += fmt::format(R"({}{{"type":"function","name":"f{}"}})", index ? "," : "", index);
  }
  const std::string space = R"({"type":"namespace","name":"n","tools":[)" + functions + "]}";
  EXPECT_EQ(parsed(with_tools(space)).chat.tools.specs.size(), 128U);
  EXPECT_EQ(refused(with_tools(space + "," + kPlain)).message,
            "tools: got 129 functions, expected at most 128");
}

TEST(ResponsesTools, AChoiceNamesAFunctionAndItsNamespace) {
  const auto chosen = [](const std::string& members) {
    return names_of(parsed(with_tools(kPlain + "," + kCalc +
                                          R"(,{"type":"namespace","name":"n",)"
                                          R"("tools":[{"type":"function","name":"twice"}]},)"
                                          R"({"type":"namespace","name":"o",)"
                                          R"("tools":[{"type":"function","name":"twice"}]})",
                                      R"({"type":"function",)" + members + "}"))
                        .chat.tools);
  };
  EXPECT_EQ(chosen(R"("name":"look")"), Names{"look"});
  EXPECT_EQ(chosen(R"("name":"look","namespace":null)"), Names{"look"});
  EXPECT_EQ(chosen(R"("name":"look","namespace":"mcp__calc")"), Names{"mcp__calc__look"});
  EXPECT_EQ(chosen(R"("name":"add")"), Names{"mcp__calc__add"});
  EXPECT_EQ(chosen(R"("name":"twice","namespace":"o")"), Names{"o__twice"});
  const std::string tools = kCalc + R"(,{"type":"namespace","name":"n","tools":[)" + kPlain + "]}";
  EXPECT_EQ(refused(with_tools(tools, R"({"type":"function","name":"look"})")).param,
            "tool_choice.namespace");
  EXPECT_EQ(
      refused(with_tools(tools, R"({"type":"function","name":"look","namespace":"o"})")).param,
      "tool_choice.name");
}

TEST(ResponsesTools, AHistoryHasTheNameThatTheModelKnows) {
  const ResponsesRequest request = parsed(
      R"({"input":[{"type":"function_call","call_id":"c","name":"add","namespace":"mcp__calc",)"
      R"("arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"3"},)"
      R"({"type":"function_call","call_id":"d","name":"look","namespace":null,"arguments":""}]})");
  const auto messages = response_messages("", request.input, 0);
  ASSERT_TRUE(messages);
  ASSERT_EQ(messages->size(), 3U);
  EXPECT_EQ(messages->at(0).tool_calls.at(0).name, "mcp__calc__add");
  EXPECT_EQ(messages->at(1).name, "mcp__calc__add");
  EXPECT_EQ(messages->at(2).tool_calls.at(0).name, "look");
  JsonWriter json;
  append_response_item(json, request.input[0]);
  EXPECT_EQ(json.take(), R"({"id":"","type":"function_call","call_id":"c","namespace":"mcp__calc",)"
                         R"("name":"add","arguments":"{}","status":"completed"})");
  EXPECT_TRUE(request.chat.fields.unknown.empty()) << request.chat.fields.unknown.front();
}

// ---- tools that OpenAI's servers run

TEST(ResponsesTools, WhatTheModelMayDoWithoutIsLeftOut) {
  const std::string hosted = kSearch + R"(,{"type":"image_generation"},)" + kSearch;
  const std::string named = R"({"type":"function","name":"look"})";
  for (const std::string& choice : {std::string(), std::string("\"auto\""), named}) {
    const ResponsesRequest request = parsed(with_tools(hosted + "," + kPlain, choice));
    EXPECT_EQ(names_of(request.chat.tools), Names{"look"});
    EXPECT_EQ(request.chat.tools.definitions.size(), 1U);
    EXPECT_EQ(request.chat.tools.places, Names{"tools[3]"});
    EXPECT_EQ(request.extras.tools.shown_json, "[" + kPlain + "]");
    EXPECT_EQ(request.chat.fields.tools_left_out,
              (Names{"web_search", "image_generation", "web_search"}));
  }
  const ResponsesRequest none = parsed(with_tools(kSearch, "\"none\""));
  EXPECT_EQ(none.extras.tools.shown_json, "[]");
  EXPECT_EQ(none.chat.tools.choice, ToolChoice::none);
}

TEST(ResponsesTools, WhatARequestDependsOnIsRefused) {
  struct Refusal {
    std::string body, param;
  };
  const std::vector<Refusal> refusals = {
      {with_tools(kSearch), "tools[0].type"},
      {with_tools(kSearch, "\"auto\""), "tools[0].type"},
      {with_tools(kSearch, "\"required\""), "tools[0].type"},
      {with_tools(kPlain + "," + kSearch, "\"required\""), "tools[1].type"},
      {with_tools(kPlain + "," + kSearch, R"({"type":"web_search"})"), "tool_choice.type"},
  };
  for (const Refusal& refusal : refusals) {
    const ApiError error = refused(refusal.body);
    EXPECT_EQ(error.param, refusal.param) << error.message;
    EXPECT_EQ(error.code, "unsupported_parameter") << error.message;
    EXPECT_NE(error.message.find("got \"web_search\""), std::string::npos) << error.message;
  }
}

// A client that sends one of these counts on its calls.
TEST(ResponsesTools, OtherTypesAreRefusedByName) {
  for (const char* type : {"mcp", "local_shell", "shell", "apply_patch", "custom", "computer",
                           "computer_use_preview", "tool_search", "websearch"}) {
    const std::string tool = fmt::format(R"({{"type":"{}","name":"t"}})", type);
    const ApiError error = refused(with_tools(kPlain + "," + tool));
    EXPECT_EQ(error.param, "tools[1].type");
    EXPECT_EQ(error.code, "unsupported_parameter");
    EXPECT_EQ(
        error.message,
        fmt::format("tools[1].type: got \"{}\", expected \"function\" or \"namespace\"", type));
  }
}

TEST(ResponsesTools, RefusesWithTheFieldsPath) {
  struct Refusal {
    std::string tools, param, code;
  };
  const auto space = [](const std::string& members) {
    return R"({"type":"namespace",)" + members + "}";
  };
  const std::vector<Refusal> refusals = {
      {"5", "tools[0]", "invalid_type"},
      {"{}", "tools[0].type", "missing_required_parameter"},
      {R"({"type":5})", "tools[0].type", "invalid_type"},
      {space(R"("tools":[])"), "tools[0].name", "missing_required_parameter"},
      {space(R"("name":5,"tools":[])"), "tools[0].name", "invalid_type"},
      {space(R"("name":"a b","tools":[])"), "tools[0].name", "invalid_value"},
      {space(R"("name":"n")"), "tools[0].tools", "missing_required_parameter"},
      {space(R"("name":"n","tools":{})"), "tools[0].tools", "invalid_type"},
      {space(R"("name":"n","tools":[])"), "tools[0].tools", "invalid_value"},
      {space(R"("name":"n","description":5,"tools":[])"), "tools[0].description", "invalid_type"},
      {space(R"("name":"n","tools":[5])"), "tools[0].tools[0]", "invalid_type"},
      {space(R"("name":"n","tools":[{"name":"f"}])"), "tools[0].tools[0].type",
       "missing_required_parameter"},
      {space(R"("name":"n","tools":[{"type":"custom","name":"f"}])"), "tools[0].tools[0].type",
       "unsupported_parameter"},
      {space(R"("name":"n","tools":[{"type":"function"}])"), "tools[0].tools[0].name",
       "missing_required_parameter"},
      {space(R"("name":"n","tools":[{"type":"function","name":"f","parameters":5}])"),
       "tools[0].tools[0].parameters", "invalid_type"},
  };
  for (const Refusal& refusal : refusals) {
    const ApiError error = refused(with_tools(refusal.tools));
    EXPECT_EQ(error.param, refusal.param) << error.message;
    EXPECT_EQ(error.code, refusal.code) << error.message;
  }
  for (const auto& [choice, param] :
       {std::pair{R"({"name":"look"})", "tool_choice.type"},
        std::pair{R"({"type":"function"})", "tool_choice.name"},
        std::pair{R"({"type":"function","name":"look","namespace":5})", "tool_choice.namespace"},
        std::pair{R"({"type":"function","name":"other"})", "tool_choice.name"}}) {
    EXPECT_EQ(refused(with_tools(kPlain, choice)).param, param);
  }
}

TEST(ResponsesTools, ATypeIsNotReadAsAFieldThatNobodyKnows) {
  const ResponsesRequest request =
      parsed(with_tools(R"({"type":"namespace","name":"n","odd":1,"tools":[)"
                        R"({"type":"function","name":"f","strange":1}]})"));
  EXPECT_EQ(request.chat.fields.unknown, (Names{"tools[].odd", "tools[].tools[].strange"}));
}

}  // namespace
}  // namespace reprise
