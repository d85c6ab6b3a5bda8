// Every endpoint beside the generating ones, their other names, and what their bodies may be.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "api/openapi.h"
#include "api/routes.h"
#include "api/service.h"
#include "api_fixture.h"
#include "reply_reader.h"

namespace reprise {
namespace {

using testing::ApiTest;
using testing::kTinyBos;
using testing::Reply;

class EndpointsTest : public ApiTest {
 protected:
  Reply post(const std::string& path, std::string body, Headers headers = {}) {
    return ask("POST", path, std::move(body), std::move(headers));
  }
};

const std::string kPrompt = R"({"prompt":"once upon","max_tokens":2,"temperature":0})";
const std::string kChat =
    R"({"messages":[{"role":"user","content":"tell"}],"max_tokens":2,"temperature":0})";

TEST_F(EndpointsTest, OtherNamesOfTheSame) {
  EXPECT_EQ(to_json(post("/chat/completions", kChat).json().at("choices")),
            to_json(post("/v1/chat/completions", kChat).json().at("choices")));
  // As on llama-server, the path without /v1 is its own form.
  EXPECT_TRUE(post("/completions", kPrompt).json().as_object().contains("content"));
  EXPECT_TRUE(post("/completion", kPrompt).json().as_object().contains("content"));
  EXPECT_TRUE(post("/v1/completions", kPrompt).json().as_object().contains("choices"));
  EXPECT_EQ(ask("GET", "/models").body, ask("GET", "/v1/models").body);
  EXPECT_EQ(ask("GET", "/v1/health").json().at("status").as_string(), "ok");
}

TEST_F(EndpointsTest, PathsBelowResponsesAreOneSegment) {
  EXPECT_EQ(find_route("GET", "/v1/responses/a/input_items")->endpoint, Endpoint::response_items);
  EXPECT_EQ(find_route("GET", "/v1/responses/a/input_items")->argument, "a");
  EXPECT_EQ(find_route("GET", "/v1/responses/a%2Fb")->argument, "a/b");
  EXPECT_EQ(find_route("DELETE", "/v1/responses/a")->endpoint, Endpoint::response);
  EXPECT_EQ(find_route("GET", "/v1/responses/input_items")->argument, "input_items");
  for (const char* path : {"/v1/responses/", "/v1/responses/a/b", "/v1/responses/a/",
                           "/v1/responses//input_items", "/v1/responses/a/b/input_items"}) {
    EXPECT_EQ(find_route("GET", path).error().status, 404) << path;
  }
  EXPECT_EQ(find_route("DELETE", "/v1/responses/a/input_items").error().status, 405);
  EXPECT_EQ(allowed_methods("/v1/responses/a"), "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(find_route("GET", "/v1/models/org/name")->argument, "org/name");
}

TEST_F(EndpointsTest, WhatOthersOfferIsNamed) {
  const auto message = [](const char* method, const char* path) {
    const ApiResult<Route> route = find_route(method, path);
    if (route) return std::string("served");
    return fmt::format("{} {}", route.error().status, route.error().message);
  };
  EXPECT_EQ(
      message("POST", "/v1/embeddings"),
      "404 /v1/embeddings: embeddings are not offered here, expected a path of /openapi.json, "
      "such as /v1/chat/completions");
  for (const char* path : {"/v1/audio/speech", "/v1/images/generations", "/v1/files", "/api/chat",
                           "/v1/moderations", "/v1/responses/compact", "/v1/messages"}) {
    EXPECT_NE(message("POST", path).find("not offered here"), std::string::npos) << path;
  }
  EXPECT_EQ(message("POST", "/v1/embeddingsx"), "404 no such path: /v1/embeddingsx");
  EXPECT_EQ(message("POST", "/nothing"), "404 no such path: /nothing");
  // Words that could be ids.
  EXPECT_EQ(find_route("GET", "/v1/responses/compact")->argument, "compact");
  EXPECT_EQ(find_route("GET", "/v1/responses/input_tokens")->endpoint, Endpoint::response);
  EXPECT_EQ(find_route("POST", "/v1/responses/resp_1").error().status, 405);
}

TEST_F(EndpointsTest, TheRootSaysWhereToGo) {
  const Reply reply = ask("GET", "/");
  EXPECT_EQ(reply.head.status, 200);
  EXPECT_EQ(reply.json().at("name").as_string(), "reprise");
  for (const char* member : {"health", "openapi"}) {
    const std::string path(reply.json().at(member).as_string());
    EXPECT_EQ(ask("GET", path).head.status, 200) << path;
  }
  EXPECT_EQ(allowed_methods("/"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(ask("POST", "/").head.status, 405);
}

TEST(Routes, TheLogKnowsPathsAndNoIds) {
  EXPECT_EQ(route_path(Endpoint::chat), "/v1/chat/completions");
  EXPECT_EQ(route_path(Endpoint::response_items), "/v1/responses/{id}/input_items");
  EXPECT_EQ(route_methods(Endpoint::response), "GET|DELETE");
  EXPECT_EQ(loggable_path("/v1/v1/chat/completions"), "/v1/v1/chat/completions");
  EXPECT_EQ(loggable_path("/v1/responses/resp_1/input_items"), "/v1/responses/{...}/input_items");
  EXPECT_EQ(loggable_path("/secret"), "/{...}");
  EXPECT_EQ(loggable_path("secret"), "{...}");
  EXPECT_EQ(loggable_path("/"), "/");
  EXPECT_EQ(loggable_path("/a/a/a/a/a/a/a/a/a/a"),
            "/{...}/{...}/{...}/{...}/{...}/{...}/{...}/{...}/...");
}

TEST_F(EndpointsTest, BodiesAreJson) {
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/completion",
                           "/v1/responses", "/tokenize", "/detokenize", "/apply-template"}) {
    for (const char* type : {"text/plain", "multipart/form-data; boundary=x", "application/xml"}) {
      const Reply reply = post(path, kChat, {{"content-type", type}});
      EXPECT_EQ(reply.head.status, 415) << path;
      EXPECT_EQ(reply.error_code(), "unsupported_media_type");
      const std::string message(reply.json().at("error").at("message").as_string());
      EXPECT_NE(message.find("application/json"), std::string::npos);
      EXPECT_NE(message.find(std::string(type).substr(0, 8)), std::string::npos);
    }
    EXPECT_EQ(post(path, "[", {{"content-type", "application/json"}}).error_code(), "invalid_json")
        << path;
    EXPECT_EQ(post(path, kChat, {{"content-encoding", "gzip"}}).head.status, 415);
  }
  EXPECT_EQ(post("/v1/chat/completions", kChat, {{"content-type", "application/json"}}).head.status,
            200);
  // What has no body to read may say what it likes.
  EXPECT_EQ(post("/v1/cache/reset", "", {{"content-type", "text/plain"}}).head.status, 200);
}

TEST_F(EndpointsTest, TokensAndBack) {
  const JsonValue plain = post("/tokenize", R"({"content":"once upon"})").json();
  const JsonArray& ids = plain.at("tokens").as_array();
  EXPECT_GT(ids.size(), 3u);
  EXPECT_EQ(post("/detokenize", R"({"tokens":)" + to_json(ids) + "}").json().at("content"),
            "once upon");
  const JsonValue special =
      post("/tokenize", R"({"content":"once upon","add_special":true})").json();
  EXPECT_EQ(special.at("tokens").at(0).to_number<TokenId>(), kTinyBos);
  EXPECT_EQ(special.at("tokens").as_array().size(), ids.size() + 1);
  const JsonValue pieces =
      post("/tokenize", R"({"content":"a\u00e9","with_pieces":true})").json().at("tokens");
  EXPECT_EQ(to_json(pieces.at(0).at("piece")), "\"a\"");
  EXPECT_EQ(to_json(pieces.at(1).at("piece")), "[195]");  // a byte of a character
  const JsonValue chat =
      post("/tokenize", R"({"messages":[{"role":"user","content":"tell"}]})").json();
  EXPECT_EQ(to_json(post("/v1/chat/completions",
                         R"({"messages":[{"role":"user","content":"tell"}],"max_tokens":1,)"
                         R"("return_token_ids":true})")
                        .json()
                        .at("choices")
                        .at(0)
                        .at("prompt_token_ids")),
            to_json(chat.at("tokens")));
  const Reply wrong = post("/detokenize", R"({"tokens":[1,99999]})");
  EXPECT_EQ(wrong.head.status, 400);
  EXPECT_EQ(wrong.json().at("error").at("param").as_string(), "tokens[1]");
  EXPECT_EQ(post("/tokenize", "{}").head.status, 400);
}

TEST_F(EndpointsTest, AppliedTemplate) {
  EXPECT_EQ(std::string_view(post("/apply-template", kChat).json().at("prompt").as_string()),
            "<bos><start_of_turn>user\ntell<end_of_turn>\n<start_of_turn>model\n");
  const std::string begun = R"({"messages":[{"role":"user","content":"tell"},)"
                            R"({"role":"assistant","content":"once "}],)";
  const auto prompt = [&](const char* member) {
    return std::string(
        post("/apply-template", begun + member + "}").json().at("prompt").as_string());
  };
  const std::string before = "<bos><start_of_turn>user\ntell<end_of_turn>\n<start_of_turn>model\n";
  EXPECT_EQ(prompt(R"("continue_final_message":true)"), before + "once ");
  EXPECT_EQ(prompt(R"("add_generation_prompt":false)"), before + "once<end_of_turn>\n");
  EXPECT_EQ(post("/apply-template", R"({"messages":[]})").head.status, 400);
}

// What changes a chat's prompt changes its tokens and its text too.
TEST_F(EndpointsTest, TokensAndTextOfAChatWithTools) {
  const std::string chat = R"({"messages":[{"role":"user","content":"tell"}],"tools":[{"type":)"
                           R"("function","function":{"name":"get","description":"gets"}}])";
  const JsonValue with_tools = post("/tokenize", chat + "}").json().at("tokens");
  const JsonValue without = post("/tokenize", kChat).json().at("tokens");
  EXPECT_GT(with_tools.as_array().size(), without.as_array().size());
  const JsonValue reply =
      post("/v1/chat/completions", chat + R"(,"max_tokens":1,"return_token_ids":true})").json();
  EXPECT_EQ(to_json(reply.at("choices").at(0).at("prompt_token_ids")), to_json(with_tools));
  const JsonValue text = post("/apply-template", chat + "}").json().at("prompt");
  EXPECT_EQ(
      to_json(
          post("/detokenize", R"({"tokens":)" + to_json(with_tools) + "}").json().at("content")),
      to_json(text));
}

TEST_F(EndpointsTest, TokensAndTextAreCheckedLikeChats) {
  const std::string chat = R"({"messages":[{"role":"user","content":"tell"}],)";
  for (const char* member :
       {R"("model":"nope")", R"("add_generation_prompt":0)", R"("chat_template":"x")",
        R"("continue_final_message":true)", R"("enable_thinking":false)",
        R"("chat_template_kwargs":{"messages":1})", R"("reasoning_effort":"most")"}) {
    const std::string body = chat + member + "}";
    const Reply expected = post("/v1/chat/completions", body);
    EXPECT_GE(expected.head.status, 400) << member;
    for (const char* path : {"/apply-template", "/tokenize"}) {
      const Reply reply = post(path, body);
      EXPECT_EQ(reply.head.status, expected.head.status) << path << " " << member;
      EXPECT_EQ(reply.body, expected.body) << path << " " << member;
    }
  }
  EXPECT_EQ(post("/tokenize", R"({"content":"a","model":"nope"})").error_code(), "model_not_found");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[],"model":"nope"})").error_code(), "model_not_found");
}

TEST_F(EndpointsTest, ReadyAndProps) {
  EXPECT_EQ(ask("GET", "/ready").head.status, 200);
  const Reply reply = ask("GET", "/props");
  const JsonValue props = reply.json();
  EXPECT_EQ(props.at("n_ctx").to_number<int>(), 512);
  EXPECT_EQ(props.at("default_generation_settings").at("n_ctx").to_number<int>(), 512);
  EXPECT_EQ(props.at("total_slots").to_number<int>(), engine->options().sequences_max);
  EXPECT_EQ(std::string(props.at("chat_template").as_string()), bundle->chat_template_source());
  EXPECT_EQ(props.at("bos_token").as_string(), "<bos>");
  EXPECT_EQ(props.at("eos_token").as_string(), "<eos>");
  EXPECT_EQ(reply.body.find("path"), std::string::npos);
  service->begin_drain();
  EXPECT_EQ(ask("GET", "/ready").head.status, 503);
  EXPECT_EQ(ask("GET", "/ready").json().at("status").as_string(), "stopping");
  EXPECT_EQ(post("/v1/responses", R"({"input":"a"})").error_code(), "server_stopping");
}

// As many as a response of the same request says that it had.
TEST_F(EndpointsTest, TokensOfAResponsesInput) {
  const std::string path = "/v1/responses/input_tokens";
  const Reply first = post("/v1/responses", R"({"input":"tell","max_output_tokens":2})");
  const std::string id(first.json().at("id").as_string());
  const std::string tool = R"("tools":[{"type":"function","name":"f","description":"gets"}])";
  for (const std::string& members :
       {std::string(R"("input":"tell")"), R"("input":"tell","instructions":"be brief",)" + tool,
        R"("input":[{"role":"user","content":"on"}],"previous_response_id":")" + id + "\""}) {
    const Reply count = post(path, "{" + members + "}");
    ASSERT_EQ(count.head.status, 200) << count.body;
    EXPECT_EQ(count.json().at("object").as_string(), "response.input_tokens");
    const Reply made = post("/v1/responses", "{" + members + R"(,"max_output_tokens":1})");
    EXPECT_EQ(count.json().at("input_tokens"), made.json().at("usage").at("input_tokens"))
        << members;
  }
  EXPECT_EQ(post(path, R"({"input":[]})").error_code(), "invalid_value");
  EXPECT_EQ(post(path, R"({"input":"a","model":"nope"})").error_code(), "model_not_found");
  EXPECT_EQ(post(path, R"({"input":"a","previous_response_id":"nope"})").error_code(),
            "previous_response_not_found");
}

TEST_F(EndpointsTest, IgnoredFieldsAreNamedInAHeader) {
  const std::string odd = R"(,"temprature":0,"a,b":1,"b\u0001":2,"stream_options":{"wink":1})";
  const std::string start = R"({"messages":[{"role":"user","content":"tell"}],"max_tokens":2)";
  const std::string name = "x-reprise-ignored";
  for (const char* more : {",\"stream\":true}", ",\"stream\":true,\"return_progress\":true}"}) {
    EXPECT_EQ(post("/v1/chat/completions", start + odd + more).header(name),
              "stream_options.wink, temprature");
  }
  EXPECT_EQ(post("/v1/chat/completions", start + R"(,"temprature":0})").header(name), "temprature");
  EXPECT_EQ(post("/v1/chat/completions", start + "}").header(name), "(none)");
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","max_tokens":1,"odd":1})").header(name),
            "odd");
  EXPECT_EQ(post("/completion", R"({"prompt":"a","n_predict":1,"odd":1})").header(name), "odd");
  EXPECT_EQ(post("/v1/responses", R"({"input":"a","max_output_tokens":1,"odd":1})").header(name),
            "odd");
  EXPECT_EQ(post("/tokenize", R"({"content":"a","odd":1})").header(name), "odd");
  std::string many = R"({"content":"a")";
  for (int i = 0; i < 100; i++) many += fmt::format(",\"odd_field_{}\":1", i);
  const std::string value = post("/tokenize", many + "}").header(name);
  EXPECT_EQ(std::ranges::count(value, ','), 15) << value;
  EXPECT_LE(value.size(), 512u);
}

TEST_F(EndpointsTest, Responses) {
  const Reply reply = post("/v1/responses", R"({"input":"tell","max_output_tokens":3})");
  ASSERT_EQ(reply.head.status, 200) << reply.body;
  const JsonValue response = reply.json();
  EXPECT_EQ(response.at("object").as_string(), "response");
  const std::string path = "/v1/responses/" + std::string(response.at("id").as_string());
  EXPECT_EQ(ask("GET", path).body, reply.body);
  EXPECT_EQ(ask("GET", path + "/input_items").json().at("data").as_array().size(), 1u);
  EXPECT_TRUE(ask("DELETE", path).json().at("deleted").as_bool());
  EXPECT_EQ(ask("GET", path).head.status, 404);
}

// What is described is there, under the same terms, and the other way round.
TEST_F(EndpointsTest, OpenApiKnowsTheRoutes) {
  const Reply reply = ask("GET", "/openapi.json");
  const JsonValue document = reply.json();
  EXPECT_TRUE(std::string_view(document.at("openapi").as_string()).starts_with("3.1"));
  EXPECT_EQ(document.at("paths").as_object().size(), 26u);
  for (const RouteDescription& described : route_descriptions()) {
    std::string path(described.path);
    if (const std::size_t at = path.find("{id}"); at != std::string::npos) path.replace(at, 4, "x");
    const ApiResult<Route> route = find_route(described.method, path);
    ASSERT_TRUE(route) << path;
    EXPECT_EQ(route->needs_key, described.needs_key) << path;
    EXPECT_EQ(route->has_body, !described.request.empty()) << path;
    EXPECT_TRUE(document.at("paths").as_object().contains(described.path)) << path;
  }
}

TEST_F(EndpointsTest, KeysAreWantedWhereSomethingIsShown) {
  ServiceOptions options;
  options.api_keys = ApiKeys({"first"});
  start({}, {}, options);
  for (const char* path : {"/", "/health", "/v1/health", "/ready"}) {
    EXPECT_EQ(ask("GET", path).head.status, 200) << path;
  }
  for (const char* path :
       {"/v1/models", "/models", "/props", "/metrics", "/v1/responses/x", "/v1/cache/stats"}) {
    const Reply reply = ask("GET", path);
    EXPECT_EQ(reply.head.status, 401) << path;
    EXPECT_EQ(reply.header("www-authenticate"), "Bearer");
  }
  for (const char* path : {"/tokenize", "/detokenize", "/apply-template", "/completion",
                           "/chat/completions", "/v1/responses"}) {
    EXPECT_EQ(post(path, "{}").head.status, 401) << path;
  }
}

}  // namespace
}  // namespace reprise
