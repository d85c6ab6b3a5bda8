// OpenAI requests: what is read from good ones, and status, code and parameter of bad ones.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "api/openai.h"

namespace reprise {
namespace {

// ---- good requests ----------------------------------------------------------------------------

ChatRequest chat(std::string_view body) {
  ApiResult<ChatRequest> request = parse_chat_request(body);
  EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
  return request ? std::move(*request) : ChatRequest();
}

CompletionRequest completion(std::string_view body) {
  ApiResult<CompletionRequest> request = parse_completion_request(body);
  EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
  return request ? std::move(*request) : CompletionRequest();
}

// A chat request with one more member.
std::string chat_with(const std::string& member) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}],)" + member + "}";
}
std::string completion_with(const std::string& member) {
  return R"({"model":"m","prompt":"hi",)" + member + "}";
}
std::string message_with(const std::string& message) {
  return R"({"model":"m","messages":[)" + message + "]}";
}

TEST(ParseChat, LeastRequest) {
  const ChatRequest request = chat(R"({"model":"m","messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(request.fields.model, "m");
  ASSERT_EQ(request.messages.size(), 1u);
  EXPECT_EQ(request.messages[0].role, "user");
  EXPECT_EQ(request.messages[0].content, "hi");
  EXPECT_FALSE(request.fields.max_tokens);
  EXPECT_FALSE(request.fields.has_seed);
  EXPECT_EQ(request.fields.sampling.temperature, 1.0);
  EXPECT_EQ(request.fields.sampling.top_k, 0);
  EXPECT_EQ(request.fields.top_logprobs, -1);
  EXPECT_TRUE(request.fields.use_cache);
  EXPECT_FALSE(request.fields.stream);
  EXPECT_TRUE(request.fields.unknown.empty());
}

TEST(ParseChat, EveryField) {
  const ChatRequest request = chat(R"({"model":"m","max_tokens":7,"max_completion_tokens":7,
      "temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.05,"seed":-3,"stop":["a","bb"],
      "stream":true,
      "stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":5,"n":1,"user":"u",
      "cache_salt":"s","cache_prompt":false,"return_token_ids":true,
      "messages":[{"role":"developer","content":"x","name":"n"},{"role":"user","content":
      [{"type":"text","text":"one"},{"type":"text","text":"two"}]},
      {"role":"assistant","content":""}]})");
  const GenerationFields& fields = request.fields;
  EXPECT_EQ(fields.max_tokens, 7);
  EXPECT_EQ(fields.sampling.temperature, 0.5);
  EXPECT_EQ(fields.sampling.top_p, 0.9);
  EXPECT_EQ(fields.sampling.top_k, 40);
  EXPECT_EQ(fields.sampling.min_p, 0.05);
  EXPECT_EQ(fields.sampling.seed, static_cast<std::uint64_t>(-3));
  EXPECT_TRUE(fields.has_seed);
  EXPECT_EQ(fields.stop, (std::vector<std::string>{"a", "bb"}));
  EXPECT_TRUE(fields.stream);
  EXPECT_TRUE(fields.include_usage);
  EXPECT_EQ(fields.top_logprobs, 5);
  EXPECT_EQ(fields.cache_salt, "s");
  EXPECT_FALSE(fields.use_cache);
  EXPECT_TRUE(fields.return_token_ids);
  ASSERT_EQ(request.messages.size(), 3u);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "one\ntwo");
  EXPECT_EQ(request.messages[2].content, "");
  EXPECT_TRUE(fields.unknown.empty());
}

TEST(ParseChat, NullIsAbsent) {
  for (const char* name : {"max_tokens",
                           "max_completion_tokens",
                           "temperature",
                           "top_p",
                           "top_k",
                           "min_p",
                           "seed",
                           "stop",
                           "stream",
                           "stream_options",
                           "logprobs",
                           "top_logprobs",
                           "n",
                           "user",
                           "cache_salt",
                           "cache_prompt",
                           "return_token_ids",
                           "tools",
                           "tool_choice",
                           "response_format",
                           "logit_bias",
                           "presence_penalty",
                           "frequency_penalty",
                           "audio",
                           "modalities",
                           "functions",
                           "echo"}) {
    const ChatRequest request = chat(chat_with("\"" + std::string(name) + "\":null"));
    EXPECT_TRUE(request.fields.unknown.empty()) << name;
  }
}

TEST(ParseChat, NeutralValuesOfRefusedParameters) {
  for (const char* member : {R"("tools":[])",
                             R"("tool_choice":"none")",
                             R"("response_format":{"type":"text"})",
                             R"("logit_bias":{})",
                             R"("presence_penalty":0)",
                             R"("frequency_penalty":0.0)",
                             R"("repetition_penalty":1.0)",
                             R"("modalities":["text"])",
                             R"("n":1)",
                             R"("echo":false)",
                             R"("ignore_eos":false)",
                             R"("skip_special_tokens":true)",
                             R"("parallel_tool_calls":true)",
                             R"("metadata":{"a":"b"})",
                             R"("stop":[])",
                             R"("top_k":-1)",
                             R"("top_k":0)",
                             R"("temperature":0)",
                             R"("temperature":2)",
                             R"("top_p":0)",
                             R"("max_tokens":5.0)",
                             R"("top_logprobs":0)",
                             R"("logprobs":false)"}) {
    chat(chat_with(member));
  }
}

TEST(ParseChat, SeedsOfAllSizes) {
  EXPECT_EQ(chat(chat_with(R"("seed":18446744073709551615)")).fields.sampling.seed,
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(chat(chat_with(R"("seed":0)")).fields.sampling.seed, 0u);
  EXPECT_TRUE(chat(chat_with(R"("seed":0)")).fields.has_seed);
}

TEST(ParseChat, UnknownFieldsAreNamed) {
  const ChatRequest request = chat(
      R"({"model":"m","frobnicate":[[1]],"stream":true,
          "stream_options":{"include_obfuscation":false},
          "messages":[{"role":"user","content":"hi","wink":1}]})");
  EXPECT_EQ(request.fields.unknown, (std::vector<std::string>{"stream_options.include_obfuscation",
                                                              "messages[].wink", "frobnicate"}));
}

TEST(ParseCompletion, Prompts) {
  EXPECT_EQ(std::get<std::string>(completion(R"({"model":"m","prompt":""})").prompt), "");
  EXPECT_EQ(completion(R"({"prompt":"hi"})").fields.model,
            "");  // one model is served: it may be left out
  EXPECT_EQ(chat(R"({"model":null,"messages":[{"role":"user","content":"hi"}]})").fields.model, "");
  EXPECT_EQ(std::get<std::string>(completion(R"({"model":"m","prompt":["a b"]})").prompt), "a b");
  EXPECT_EQ(std::get<std::vector<TokenId>>(completion(R"({"model":"m","prompt":[5,0,7]})").prompt),
            (std::vector<TokenId>{5, 0, 7}));
  EXPECT_EQ(completion(completion_with(R"("logprobs":0)")).fields.top_logprobs, 0);
  EXPECT_EQ(completion(completion_with(R"("logprobs":5)")).fields.top_logprobs, 5);
  EXPECT_EQ(
      completion(completion_with(R"("logprobs":null,"best_of":1,"suffix":"")")).fields.top_logprobs,
      -1);
}

// ---- bad requests -----------------------------------------------------------------------------

struct BadRequest {
  std::string body;
  const char* code;
  const char* param;
};

const char* const kMissing = "missing_required_parameter";
const char* const kType = "invalid_type";
const char* const kValue = "invalid_value";
const char* const kUnsupported = "unsupported_parameter";

void expect_refused(const ApiError& error, const BadRequest& bad) {
  EXPECT_EQ(error.status, 400) << bad.body;
  EXPECT_EQ(error.code, bad.code) << bad.body << ": " << error.message;
  EXPECT_EQ(error.param, bad.param) << bad.body << ": " << error.message;
  EXPECT_FALSE(error.message.empty());
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
}

void expect_chat_refused(const std::vector<BadRequest>& table) {
  for (const BadRequest& bad : table) {
    const ApiResult<ChatRequest> request = parse_chat_request(bad.body);
    ASSERT_FALSE(request) << bad.body;
    expect_refused(request.error(), bad);
  }
}

void expect_completion_refused(const std::vector<BadRequest>& table) {
  for (const BadRequest& bad : table) {
    const ApiResult<CompletionRequest> request = parse_completion_request(bad.body);
    ASSERT_FALSE(request) << bad.body;
    expect_refused(request.error(), bad);
  }
}

TEST(ParseChat, RefusesBadJson) {
  const std::string deep(100'000, '[');
  expect_chat_refused({
      {"", "invalid_json", ""},
      {"{", "invalid_json", ""},
      {"not json", "invalid_json", ""},
      {R"({"model":"m"} x)", "invalid_json", ""},
      {R"({"model":"m","model":"m"})", "invalid_json", ""},
      {"{\"model\":\"\xC3\x28\"}", "invalid_json", ""},
      {R"({"model":"\ud800"})", "invalid_json", ""},
      {R"({"model":"a\u0000b"})", "invalid_json", ""},
      {deep, "invalid_json", ""},
      {chat_with("\"unknown\":" + deep), "invalid_json", ""},
      {chat_with(R"("temperature":NaN)"), "invalid_json", ""},
      {chat_with(R"("temperature":1e999)"), "invalid_json", ""},
      {"[]", kType, ""},
      {"null", kType, ""},
      {"\"text\"", kType, ""},
      {"3", kType, ""},
  });
}

TEST(ParseChat, RefusesBadMessages) {
  expect_chat_refused({
      {R"({"model":3,"messages":[]})", kType, "model"},
      {R"({"model":"m"})", kMissing, "messages"},
      {R"({"model":"m","messages":null})", kMissing, "messages"},
      {R"({"model":"m","messages":"hi"})", kType, "messages"},
      {R"({"model":"m","messages":{}})", kType, "messages"},
      {R"({"model":"m","messages":[]})", kValue, "messages"},
      {message_with("\"hi\""), kType, "messages[0]"},
      {message_with("null"), kType, "messages[0]"},
      {message_with("{}"), kMissing, "messages[0].role"},
      {message_with(R"({"content":"hi"})"), kMissing, "messages[0].role"},
      {message_with(R"({"role":3,"content":"hi"})"), kType, "messages[0].role"},
      {message_with(R"({"role":"robot","content":"hi"})"), kValue, "messages[0].role"},
      {message_with(R"({"role":"User","content":"hi"})"), kValue, "messages[0].role"},
      {message_with(R"({"role":"tool","content":"hi"})"), kUnsupported, "messages[0].role"},
      {message_with(R"({"role":"user"})"), kMissing, "messages[0].content"},
      {message_with(R"({"role":"user","content":null})"), kMissing, "messages[0].content"},
      {message_with(R"({"role":"user","content":5})"), kType, "messages[0].content"},
      {message_with(R"({"role":"user","content":{}})"), kType, "messages[0].content"},
      {message_with(R"({"role":"user","content":[]})"), kValue, "messages[0].content"},
      {message_with(R"({"role":"user","content":["hi"]})"), kType, "messages[0].content[0]"},
      {message_with(R"({"role":"user","content":[{}]})"), kMissing, "messages[0].content[0].type"},
      {message_with(R"({"role":"user","content":[{"type":1}]})"), kType,
       "messages[0].content[0].type"},
      {message_with(R"({"role":"user","content":[{"type":"text"}]})"), kMissing,
       "messages[0].content[0].text"},
      {message_with(R"({"role":"user","content":[{"type":"text","text":1}]})"), kType,
       "messages[0].content[0].text"},
      {message_with(R"({"role":"user","content":[{"type":"text","text":"a"},
                       {"type":"image_url","image_url":{"url":"x"}}]})"),
       kUnsupported, "messages[0].content[1].type"},
      {message_with(R"({"role":"user","content":"a"},{"role":"assistant","content":null,
                       "tool_calls":[{"id":"1"}]})"),
       kUnsupported, "messages[1].tool_calls"},
      {message_with(R"({"role":"user","content":"a","name":1})"), kType, "messages[0].name"},
  });
}

TEST(ParseChat, RefusesBadNumbers) {
  expect_chat_refused({
      {chat_with(R"("max_tokens":0)"), kValue, "max_tokens"},
      {chat_with(R"("max_tokens":-1)"), kValue, "max_tokens"},
      {chat_with(R"("max_tokens":2.5)"), kType, "max_tokens"},
      {chat_with(R"("max_tokens":"5")"), kType, "max_tokens"},
      {chat_with(R"("max_tokens":1e300)"), kValue, "max_tokens"},
      {chat_with(R"("max_tokens":18446744073709551615)"), kValue, "max_tokens"},
      {chat_with(R"("max_tokens":[1])"), kType, "max_tokens"},
      {chat_with(R"("max_tokens":true)"), kType, "max_tokens"},
      {chat_with(R"("max_completion_tokens":0)"), kValue, "max_completion_tokens"},
      {chat_with(R"("max_tokens":5,"max_completion_tokens":6)"), kValue, "max_completion_tokens"},
      {chat_with(R"("temperature":-1)"), kValue, "temperature"},
      {chat_with(R"("temperature":2.01)"), kValue, "temperature"},
      {chat_with(R"("temperature":1e9)"), kValue, "temperature"},
      {chat_with(R"("temperature":"hot")"), kType, "temperature"},
      {chat_with(R"("top_p":7)"), kValue, "top_p"},
      {chat_with(R"("top_p":-0.1)"), kValue, "top_p"},
      {chat_with(R"("top_p":false)"), kType, "top_p"},
      {chat_with(R"("top_k":-5)"), kValue, "top_k"},
      {chat_with(R"("top_k":1000000000)"), kValue, "top_k"},
      {chat_with(R"("top_k":1.5)"), kType, "top_k"},
      {chat_with(R"("min_p":1.1)"), kValue, "min_p"},
      {chat_with(R"("min_p":{})"), kType, "min_p"},
      {chat_with(R"("seed":1.5)"), kType, "seed"},
      {chat_with(R"("seed":"x")"), kType, "seed"},
      {chat_with(R"("seed":1e30)"), kValue, "seed"},
      {chat_with(R"("n":0)"), kValue, "n"},
      {chat_with(R"("n":2)"), kUnsupported, "n"},
      {chat_with(R"("n":"1")"), kType, "n"},
      {chat_with(R"("logprobs":3)"), kType, "logprobs"},
      {chat_with(R"("top_logprobs":5)"), kValue, "top_logprobs"},
      {chat_with(R"("logprobs":true,"top_logprobs":21)"), kValue, "top_logprobs"},
      {chat_with(R"("logprobs":true,"top_logprobs":-1)"), kValue, "top_logprobs"},
      {chat_with(R"("logprobs":true,"top_logprobs":10000)"), kValue, "top_logprobs"},
  });
}

TEST(ParseChat, RefusesBadStopsAndFlags) {
  std::string many = "[\"a\"";
  for (int i = 0; i < 16; i++) many += ",\"a\"";
  const std::string longest(Limits().stop_bytes_max, 'x');
  expect_chat_refused({
      {chat_with(R"("stop":"")"), kValue, "stop"},
      {chat_with(R"("stop":[""])"), kValue, "stop[0]"},
      {chat_with(R"("stop":["a",""])"), kValue, "stop[1]"},
      {chat_with(R"("stop":["a",null])"), kType, "stop[1]"},
      {chat_with(R"("stop":5)"), kType, "stop"},
      {chat_with(R"("stop":{"a":1})"), kType, "stop"},
      {chat_with(R"("stop":[[1]])"), kType, "stop[0]"},
      {chat_with("\"stop\":" + many + "]"), kValue, "stop"},
      {chat_with("\"stop\":\"" + longest + "x\""), kValue, "stop"},
      {chat_with(R"("stream":"yes")"), kType, "stream"},
      {chat_with(R"("stream":1)"), kType, "stream"},
      {chat_with(R"("stream_options":{"include_usage":true})"), kValue, "stream_options"},
      {chat_with(R"("stream":true,"stream_options":[])"), kType, "stream_options"},
      {chat_with(R"("stream":true,"stream_options":{"include_usage":1})"), kType,
       "stream_options.include_usage"},
      {chat_with(R"("user":5)"), kType, "user"},
      {chat_with(R"("cache_salt":5)"), kType, "cache_salt"},
      {chat_with(R"("cache_prompt":"no")"), kType, "cache_prompt"},
      {chat_with(R"("return_token_ids":1)"), kType, "return_token_ids"},
  });
  chat(chat_with("\"stop\":\"" + longest + "\""));
}

TEST(ParseChat, RefusesWhatWouldChangeTheAnswer) {
  expect_chat_refused({
      {chat_with(R"("tools":[{"type":"function"}])"), kUnsupported, "tools"},
      {chat_with(R"("tools":"all")"), kType, "tools"},
      {chat_with(R"("tool_choice":"auto")"), kUnsupported, "tool_choice"},
      {chat_with(R"("tool_choice":{"type":"function"})"), kUnsupported, "tool_choice"},
      {chat_with(R"("functions":[{"name":"f"}])"), kUnsupported, "functions"},
      {chat_with(R"("function_call":"auto")"), kUnsupported, "function_call"},
      {chat_with(R"("response_format":{"type":"json_object"})"), kUnsupported, "response_format"},
      {chat_with(R"("response_format":{})"), kUnsupported, "response_format"},
      {chat_with(R"("response_format":"json")"), kType, "response_format"},
      {chat_with(R"("logit_bias":{"50256":-100})"), kUnsupported, "logit_bias"},
      {chat_with(R"("logit_bias":"x")"), kType, "logit_bias"},
      {chat_with(R"("presence_penalty":0.5)"), kUnsupported, "presence_penalty"},
      {chat_with(R"("presence_penalty":"x")"), kType, "presence_penalty"},
      {chat_with(R"("frequency_penalty":-2)"), kUnsupported, "frequency_penalty"},
      {chat_with(R"("repetition_penalty":1.1)"), kUnsupported, "repetition_penalty"},
      {chat_with(R"("audio":{"voice":"alloy"})"), kUnsupported, "audio"},
      {chat_with(R"("modalities":["text","audio"])"), kUnsupported, "modalities"},
      {chat_with(R"("reasoning_effort":"high")"), kUnsupported, "reasoning_effort"},
      {chat_with(R"("guided_json":{})"), kUnsupported, "guided_json"},
      {chat_with(R"("min_tokens":3)"), kUnsupported, "min_tokens"},
      {chat_with(R"("ignore_eos":true)"), kUnsupported, "ignore_eos"},
      {chat_with(R"("ignore_eos":"yes")"), kType, "ignore_eos"},
      {chat_with(R"("chat_template":"{{ x }}")"), kUnsupported, "chat_template"},
      {chat_with(R"("stop_token_ids":[3])"), kUnsupported, "stop_token_ids"},
  });
}

TEST(ParseCompletion, Refuses) {
  expect_completion_refused({
      {R"({"model":"m"})", kMissing, "prompt"},
      {R"({"model":"m","prompt":null})", kMissing, "prompt"},
      {R"({"model":"m","prompt":5})", kType, "prompt"},
      {R"({"model":"m","prompt":{}})", kType, "prompt"},
      {R"({"model":"m","prompt":[]})", kValue, "prompt"},
      {R"({"model":"m","prompt":["a","b"]})", kUnsupported, "prompt"},
      {R"({"model":"m","prompt":[[1,2]]})", kUnsupported, "prompt"},
      {R"({"model":"m","prompt":[1,"a"]})", kType, "prompt[1]"},
      {R"({"model":"m","prompt":[1,2.5]})", kType, "prompt[1]"},
      {R"({"model":"m","prompt":[1,null]})", kType, "prompt[1]"},
      {R"({"model":"m","prompt":[-1]})", kValue, "prompt[0]"},
      {R"({"model":"m","prompt":[1,4294967296]})", kValue, "prompt[1]"},
      {completion_with(R"("logprobs":6)"), kValue, "logprobs"},
      {completion_with(R"("logprobs":-1)"), kValue, "logprobs"},
      {completion_with(R"("logprobs":true)"), kType, "logprobs"},
      {completion_with(R"("echo":true)"), kUnsupported, "echo"},
      {completion_with(R"("echo":1)"), kType, "echo"},
      {completion_with(R"("suffix":"end")"), kUnsupported, "suffix"},
      {completion_with(R"("best_of":2)"), kUnsupported, "best_of"},
      {completion_with(R"("best_of":"2")"), kType, "best_of"},
      {completion_with(R"("n":3)"), kUnsupported, "n"},
      {completion_with(R"("max_tokens":0)"), kValue, "max_tokens"},
      {completion_with(R"("stop":[""])"), kValue, "stop[0]"},
  });
}

TEST(Parse, MessagesCarryBothNumbers) {
  const auto message_of = [](const std::string& body) {
    return parse_chat_request(body).error().message;
  };
  EXPECT_EQ(message_of(chat_with(R"("top_p":7)")), "top_p: got 7, expected 0 to 1");
  EXPECT_EQ(message_of(chat_with(R"("top_k":-5)")), "top_k: got -5, expected -1 to 1000000");
  EXPECT_EQ(message_of(chat_with(R"("temperature":"hot")")),
            "temperature: got a string, expected a number");
}

TEST(Parse, QuotesOfTheClientAreShort) {
  const std::string role(100'000, 'r');
  const ApiResult<ChatRequest> request =
      parse_chat_request(message_with("{\"role\":\"" + role + "\",\"content\":\"\"}"));
  ASSERT_FALSE(request);
  EXPECT_LT(request.error().message.size(), 300u);
}

TEST(Parse, BodyLimit) {
  Limits limits;
  limits.body_bytes_max = 20;
  const ApiError error = parse_chat_request(chat_with("\"n\":1"), limits).error();
  EXPECT_EQ(error.code, "invalid_json");
  EXPECT_NE(error.message.find("at most 20"), std::string::npos) << error.message;
}

TEST(Parse, LimitsCarryBothNumbers) {
  Limits limits;
  limits.messages_max = 2;
  limits.content_parts_max = 2;
  limits.stops_max = 2;
  limits.name_bytes_max = 10;
  limits.timeout_ms_max = 1500;
  const auto message_of = [&](const std::string& body) {
    const ApiResult<ChatRequest> request = parse_chat_request(body, limits);
    return request ? "accepted" : request.error().message;
  };
  const std::string message = R"({"role":"user","content":"a"})";
  const auto messages = [&](int count) {
    std::string list = message;
    for (int i = 1; i < count; i++) list += "," + message;
    return R"({"messages":[)" + list + "]}";
  };
  EXPECT_EQ(message_of(messages(2)), "accepted");
  EXPECT_EQ(message_of(messages(3)), "messages: got 3 messages, expected at most 2");
  const std::string part = R"({"type":"text","text":"a"})";
  EXPECT_EQ(message_of(R"({"messages":[{"role":"user","content":[)" + part + "," + part + "," +
                       part + "]}]}"),
            "messages[0].content: got 3 parts, expected at most 2");
  EXPECT_EQ(message_of(chat_with(R"("stop":["a","b","c"])")),
            "stop: got 3 strings, expected at most 2");
  EXPECT_EQ(message_of(chat_with(R"("cache_salt":"elevenbytes")")),
            "cache_salt: got 11 bytes, expected at most 10");
  EXPECT_EQ(message_of(chat_with(R"("timeout":1.5)")), "accepted");
  EXPECT_EQ(message_of(chat_with(R"("timeout":1.6)")), "timeout: got 1.6, expected 0 to 1.5");
  EXPECT_EQ(message_of(chat_with(R"("timeout":0)")),
            "timeout: got 0, expected more than 0, at most 1.5");
  EXPECT_EQ(message_of(chat_with(R"("cache_pin_seconds":86401)")),
            "cache_pin_seconds: got 86401, expected 0 to 86400");
}

TEST(Parse, SchedulingAndCacheFields) {
  const GenerationFields fields =
      chat(chat_with(R"("priority":"high","timeout":2.5,"cache_pin_seconds":60,)"
                     R"("cache_details":true)"))
          .fields;
  EXPECT_EQ(fields.priority, Priority::high);
  EXPECT_EQ(fields.timeout_ms, 2500);
  EXPECT_EQ(fields.cache_pin_seconds, 60);
  EXPECT_TRUE(fields.cache_details);
  EXPECT_TRUE(fields.unknown.empty());
  const GenerationFields none = chat(chat_with(R"("priority":null,"timeout":null)")).fields;
  EXPECT_EQ(none.priority, Priority::normal);
  EXPECT_FALSE(none.timeout_ms);
  EXPECT_EQ(none.cache_pin_seconds, 0);
  EXPECT_FALSE(none.cache_details);
  EXPECT_EQ(chat(chat_with(R"("priority":"low")")).fields.priority, Priority::low);
  EXPECT_EQ(chat(chat_with(R"("timeout":0.0001)")).fields.timeout_ms, 1);
  expect_chat_refused({
      {chat_with(R"("priority":1)"), kType, "priority"},
      {chat_with(R"("priority":"urgent")"), kValue, "priority"},
      {chat_with(R"("timeout":"5")"), kType, "timeout"},
      {chat_with(R"("timeout":-1)"), kValue, "timeout"},
      {chat_with(R"("timeout":86401)"), kValue, "timeout"},
      {chat_with(R"("cache_pin_seconds":1.5)"), kType, "cache_pin_seconds"},
      {chat_with(R"("cache_pin_seconds":-1)"), kValue, "cache_pin_seconds"},
      {chat_with(R"("cache_pin_seconds":5,"cache_prompt":false)"), kValue, "cache_pin_seconds"},
      {chat_with(R"("cache_details":1)"), kType, "cache_details"},
  });
}

}  // namespace
}  // namespace reprise
