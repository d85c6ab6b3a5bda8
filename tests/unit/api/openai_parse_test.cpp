// OpenAI requests: what is read from good ones, and status, code and parameter of bad ones.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "api/field_reader.h"
#include "openai_parse_cases.h"

namespace reprise::testing {
namespace {

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
                           "echo",
                           "min_tokens",
                           "stop_token_ids",
                           "dry_sequence_breakers",
                           "parallel_tool_calls",
                           "reasoning_effort",
                           "chat_template_kwargs",
                           "repeat_penalty",
                           "return_progress",
                           "typical_p"}) {
    const ChatRequest request = chat(chat_with("\"" + std::string(name) + "\":null"));
    EXPECT_TRUE(request.fields.unknown.empty()) << name;
  }
}

TEST(ParseChat, ValuesThatAskForNothing) {
  for (const char* member : {R"("tools":[])",
                             R"("tool_choice":"none")",
                             R"("tool_choice":"auto")",
                             R"("functions":[])",
                             R"("function_call":"none")",
                             R"("suffix":"")",
                             R"("best_of":1)",
                             R"("samplers":[])",
                             R"("mirostat":0)",
                             R"("grammar":"")",
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
                             R"("verbosity":"medium")",
                             R"("top_n_sigma":-1)",
                             R"("top_n_sigma":0.0)",
                             R"("min_keep":0)",
                             R"("t_max_predict_ms":0)",
                             R"("reasoning_format":"auto")",
                             R"("reasoning_format":"deepseek")",
                             R"("n_indent":0)",
                             R"("parse_tool_calls":true)",
                             R"("add_special_tokens":false)",
                             R"("return_tokens_as_token_ids":false)",
                             R"("include_reasoning":true)",
                             R"("separate_reasoning":true)",
                             R"("smoothing_factor":0)",
                             R"("sampler_order":[])",
                             R"("temperature_last":false)",
                             R"("thinking_budget_tokens":-1)",
                             R"("thinking_budget":-1)",
                             R"("reasoning_budget":-1)",
                             R"("reasoning":{})",
                             R"("thinking":null)",
                             R"("stop_sequences":[])",
                             R"("format":"")",
                             R"("options":{})",
                             R"("n_probs":0)",
                             R"("mirostat_mode":0)",
                             R"("adaptive_target":-1.0)",
                             R"("typ_p":1)",
                             R"("nsigma":0)",
                             R"("penalty_alpha":0)",
                             R"("best_of":1.0)",
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

// What would be another answer than the client asked for.
TEST(ParseChat, RefusesWhatItDoesNotHave) {
  std::vector<BadRequest> table;
  for (const char* member : {R"("verbosity":"high")",
                             R"("top_n_sigma":1.5)",
                             R"("min_keep":3)",
                             R"("t_max_predict_ms":500)",
                             R"("reasoning_format":"none")",
                             R"("n_indent":2)",
                             R"("parse_tool_calls":false)",
                             R"("regex":"a+")",
                             R"("ebnf":"root ::= x")",
                             R"("structural_tag":{})",
                             R"("add_special_tokens":true)",
                             R"("logits_processors":["x"])",
                             R"("prompt_embeds":"x")",
                             R"("return_tokens_as_token_ids":true)",
                             R"("logprob_token_ids":[1])",
                             R"("include_reasoning":false)",
                             R"("separate_reasoning":false)",
                             R"("enable_thinking":true)",
                             R"("moderation":{"model":"m"})",
                             R"("thinking":{"type":"disabled"})",
                             R"("think":false)",
                             R"("thinking_budget":0)",
                             R"("reasoning_budget":0)",
                             R"("stop_sequences":["a"])",
                             R"("stop_strings":"a")",
                             R"("max_new_tokens":5)",
                             R"("num_predict":5)",
                             R"("format":"json")",
                             R"("response_schema":{})",
                             R"("options":{"num_ctx":1})",
                             R"("n_probs":2)",
                             R"("mirostat_mode":2)",
                             R"("adaptive_target":0.5)",
                             R"("typ_p":0.5)",
                             R"("nsigma":1)",
                             R"("penalty_alpha":0.6)",
                             R"("thinking_budget_tokens":100)",
                             R"("smoothing_factor":0.2)",
                             R"("sampler_order":[6,0])",
                             R"("temperature_last":true)",
                             R"("best_of":"1")",
                             R"("functions":{"a":1})",
                             R"("response_format":{"type":"text"},"echo":1)"}) {
    const std::string text = member;
    const std::size_t name = text.find("echo") == std::string::npos ? 1 : text.find("echo");
    table.push_back(
        {chat_with(text), kUnsupported, text.substr(name, text.find('"', name) - name)});
  }
  expect_chat_refused(table);
  const auto message_of = [](const std::string& member) {
    return parse_chat_request(chat_with(member)).error().message;
  };
  EXPECT_EQ(message_of(R"("top_n_sigma":1)"),
            "top_n_sigma: not supported, expected -1, 0 or no such field");
  EXPECT_EQ(message_of(R"("regex":"a")"), "regex: not supported, expected no such field");
  // What says the same here is named.
  EXPECT_EQ(
      message_of(R"("think":false)"),
      "think: not supported, expected chat_template_kwargs, reasoning_effort or no such field");
  EXPECT_EQ(message_of(R"("stop_sequences":["a"])"),
            "stop_sequences: not supported, expected stop, [] or no such field");
  EXPECT_EQ(message_of(R"("max_new_tokens":5)"),
            "max_new_tokens: not supported, expected max_tokens or no such field");
  EXPECT_EQ(message_of(R"("format":"json")"),
            "format: not supported, expected response_format, \"\" or no such field");
}

// Completions have neither thoughts nor a template to name.
TEST(ParseCompletion, NamesOnlyWhatItHas) {
  const auto error = parse_completion_request(completion_with(R"("think":false)")).error();
  EXPECT_EQ(error.message, "think: not supported, expected no such field");
  const auto llama_error =
      parse_llama_completion_request(completion_with(R"("max_new_tokens":5)")).error();
  EXPECT_EQ(llama_error.message,
            "max_new_tokens: not supported, expected n_predict or no such field");
  EXPECT_EQ(llama(completion_with(R"("n_probs":2)")).fields.top_logprobs, 2);
  EXPECT_EQ(
      parse_completion_request(completion_with(R"("reasoning":{"effort":"low"})")).error().param,
      "reasoning");
}

TEST(ParseChat, MinusOneIsNoLimit) {
  for (const char* member : {R"("max_tokens":-1)", R"("max_completion_tokens":-1)",
                             R"("max_tokens":-1.0,"max_completion_tokens":-1)"}) {
    EXPECT_EQ(chat(chat_with(member)).fields.max_tokens, std::nullopt) << member;
    EXPECT_EQ(completion(completion_with(member)).fields.max_tokens, std::nullopt) << member;
  }
  EXPECT_EQ(completion(completion_with(R"("echo":true,"max_tokens":0)")).fields.max_tokens, 0);
  EXPECT_EQ(parse_chat_request(chat_with(R"("max_tokens":0)")).error().message,
            "max_tokens: got 0, expected -1 or 1 to 2147483647");
}

TEST(ParseChat, EffortMayStandInAnObject) {
  EXPECT_EQ(chat(chat_with(R"("reasoning":{"effort":"low","exclude":false})")).reasoning_effort,
            "low");
  EXPECT_EQ(
      chat(chat_with(R"("reasoning":{"effort":"max"},"reasoning_effort":"max")")).reasoning_effort,
      "max");
  EXPECT_EQ(chat(chat_with(R"("reasoning":{},"reasoning_effort":"high")")).reasoning_effort,
            "high");
  expect_chat_refused({
      {chat_with(R"("reasoning":"low")"), kType, "reasoning"},
      {chat_with(R"("reasoning":{"effort":"most"})"), kValue, "reasoning.effort"},
      {chat_with(R"("reasoning":{"effort":"low"},"reasoning_effort":"high")"), kValue,
       "reasoning.effort"},
      {chat_with(R"("reasoning":{"max_tokens":100})"), kUnsupported, "reasoning.max_tokens"},
      {chat_with(R"("reasoning":{"enabled":false})"), kUnsupported, "reasoning.enabled"},
      {chat_with(R"("reasoning":{"exclude":true})"), kUnsupported, "reasoning.exclude"},
  });
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

TEST(ParseChat, RefusesBadNumbers) {
  expect_chat_refused({
      {chat_with(R"("max_tokens":0)"), kValue, "max_tokens"},
      {chat_with(R"("max_tokens":-2)"), kValue, "max_tokens"},
      {chat_with(R"("max_tokens":-1,"max_completion_tokens":5)"), kValue, "max_completion_tokens"},
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
      {chat_with(R"("n":129)"), kValue, "n"},
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

TEST(Parse, MessagesCarryBothNumbers) {
  const auto message_of = [](const std::string& body) {
    return parse_chat_request(body).error().message;
  };
  EXPECT_EQ(message_of(chat_with(R"("top_p":7)")), "top_p: got 7, expected 0 to 1");
  EXPECT_EQ(message_of(chat_with(R"("top_k":-5)")), "top_k: got -5, expected -1 to 1000000");
  EXPECT_EQ(message_of(chat_with(R"("temperature":"hot")")),
            "temperature: got a string, expected a number");
}

// Quadratic work on what is ignored would be a way to stop the server.
TEST(ParseChat, ManyUnknownFieldsCostLittle) {
  std::string body = R"({"messages":[{"role":"user","content":"hi"}])";
  for (int i = 0; i < 300'000; i++) body += fmt::format(",\"u{}\":0", i);
  EXPECT_EQ(chat(body + "}").fields.unknown.size(), kUnknownMax);
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

TEST(ParseChat, RefusesWhatWouldChangeTheAnswer) {
  expect_chat_refused({
      {chat_with(R"("functions":[{"name":"f"}])"), kUnsupported, "functions"},
      {chat_with(R"("functions":"f")"), kUnsupported, "functions"},
      {chat_with(R"("function_call":"auto")"), kUnsupported, "function_call"},
      {chat_with(R"("function_call":{"name":"f"})"), kUnsupported, "function_call"},
      {chat_with(R"("audio":{"voice":"alloy"})"), kUnsupported, "audio"},
      {chat_with(R"("modalities":["text","audio"])"), kUnsupported, "modalities"},
      {chat_with(R"("modalities":"text")"), kUnsupported, "modalities"},
      {chat_with(R"("guided_json":{})"), kUnsupported, "guided_json"},
      {chat_with(R"("structured_outputs":{"json":{}})"), kUnsupported, "structured_outputs"},
      {chat_with(R"("chat_template":"{{ x }}")"), kUnsupported, "chat_template"},
      {chat_with(R"("grammar":"root ::= x")"), kUnsupported, "grammar"},
      {chat_with(R"("grammar":1)"), kUnsupported, "grammar"},
      {chat_with(R"("echo":true)"), kUnsupported, "echo"},
      {chat_with(R"("best_of":2)"), kUnsupported, "best_of"},
      {chat_with(R"("suffix":"end")"), kUnsupported, "suffix"},
      {chat_with(R"("mirostat":2)"), kUnsupported, "mirostat"},
      {chat_with(R"("prompt_logprobs":1)"), kUnsupported, "prompt_logprobs"},
      {chat_with(R"("web_search_options":{})"), kUnsupported, "web_search_options"},
  });
}

}  // namespace
}  // namespace reprise::testing
