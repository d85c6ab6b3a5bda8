// Completions in OpenAI's and in llama-server's form; tokenize and detokenize.
#include <string>

#include <gtest/gtest.h>

#include "openai_parse_cases.h"

namespace reprise::testing {
namespace {

using Ids = std::vector<TokenId>;

TEST(ParseCompletion, Prompts) {
  const auto prompts = [](const std::string& prompt) {
    return completion("{\"prompt\":" + prompt + "}").prompts;
  };
  EXPECT_EQ(std::get<std::string>(prompts("\"\"")[0]), "");
  EXPECT_EQ(std::get<std::string>(prompts(R"(["a b"])")[0]), "a b");
  EXPECT_EQ(std::get<Ids>(prompts("[5,0,7]")[0]), (Ids{5, 0, 7}));
  EXPECT_EQ(prompts("[5,0,7]").size(), 1u);
  const auto two = prompts(R"(["a","b"])");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(std::get<std::string>(two[1]), "b");
  const auto lists = prompts("[[1,2],[3.0]]");
  ASSERT_EQ(lists.size(), 2u);
  EXPECT_EQ(std::get<Ids>(lists[1]), (Ids{3}));
  EXPECT_EQ(completion(R"({"prompt":"hi"})").fields.model, "");  // one model is served
}

TEST(ParseCompletion, Fields) {
  EXPECT_EQ(completion(completion_with(R"("logprobs":0)")).fields.top_logprobs, 0);
  EXPECT_EQ(completion(completion_with(R"("logprobs":5)")).fields.top_logprobs, 5);
  EXPECT_EQ(completion(completion_with(R"("logprobs":null)")).fields.top_logprobs, -1);
  EXPECT_TRUE(completion(completion_with(R"("echo":true)")).echo);
  EXPECT_EQ(completion(completion_with(R"("echo":true,"max_tokens":0)")).fields.max_tokens, 0);
  completion(completion_with(R"("add_special_tokens":true)"));
  const auto mixed = completion(R"({"prompt":["a",[1,2]]})").prompts;
  ASSERT_EQ(mixed.size(), 2u);
  EXPECT_EQ(std::get<Ids>(mixed[1]), (Ids{1, 2}));
  completion(completion_with(R"("best_of":1,"suffix":"","tools":[],"tool_choice":"auto",
      "parallel_tool_calls":false,"response_format":{"type":"text"},"n":128)"));
}

TEST(ParseCompletion, Refuses) {
  expect_completion_refused({
      {R"({"model":"m"})", kMissing, "prompt"},
      {R"({"model":"m","prompt":null})", kMissing, "prompt"},
      {R"({"prompt":5})", kType, "prompt"},
      {R"({"prompt":{}})", kType, "prompt"},
      {R"({"prompt":true})", kType, "prompt"},
      {R"({"prompt":[]})", kValue, "prompt"},
      {R"({"prompt":[null]})", kType, "prompt[0]"},
      {R"({"prompt":[[]]})", kValue, "prompt[0]"},
      {R"({"prompt":[[1],[]]})", kValue, "prompt[1]"},
      {R"({"prompt":["a",1]})", kType, "prompt[1]"},
      {R"({"prompt":["a",{}]})", kType, "prompt[1]"},
      {R"({"prompt":[[1],"a",2]})", kType, "prompt[2]"},
      {R"({"prompt":[1,"a"]})", kType, "prompt[1]"},
      {R"({"prompt":[1,2.5]})", kType, "prompt[1]"},
      {R"({"prompt":[1,null]})", kType, "prompt[1]"},
      {R"({"prompt":[-1]})", kValue, "prompt[0]"},
      {R"({"prompt":[1,4294967296]})", kValue, "prompt[1]"},
      {R"({"prompt":[[1,-2]]})", kValue, "prompt[0][1]"},
      {completion_with(R"("logprobs":6)"), kValue, "logprobs"},
      {completion_with(R"("logprobs":-1)"), kValue, "logprobs"},
      {completion_with(R"("logprobs":true)"), kType, "logprobs"},
      {completion_with(R"("echo":1)"), kType, "echo"},
      {completion_with(R"("suffix":"end")"), kUnsupported, "suffix"},
      {completion_with(R"("suffix":3)"), kUnsupported, "suffix"},
      {completion_with(R"("best_of":2)"), kUnsupported, "best_of"},
      {completion_with(R"("best_of":"2")"), kUnsupported, "best_of"},
      {completion_with(R"("n":129)"), kValue, "n"},
      {completion_with(R"("max_tokens":0)"), kValue, "max_tokens"},
      {completion_with(R"("max_tokens":-2,"echo":true)"), kValue, "max_tokens"},
      {completion_with(R"("max_tokens":3,"min_tokens":4)"), kValue, "min_tokens"},
      {completion_with(R"("stop":[""])"), kValue, "stop[0]"},
      {completion_with(R"("tools":[{"type":"function"}])"), kUnsupported, "tools"},
      {completion_with(R"("response_format":{"type":"json_object"})"), kUnsupported,
       "response_format"},
      {completion_with(R"("json_schema":{})"), kUnsupported, "json_schema"},
      {completion_with(R"("n_predict":3)"), kUnsupported, "n_predict"},
      {completion_with(R"("add_special_tokens":false)"), kUnsupported, "add_special_tokens"},
      {completion_with(R"("add_special_tokens":1)"), kType, "add_special_tokens"},
  });
  std::string many = R"({"prompt":["a")";
  for (int i = 0; i < 128; i++) many += ",\"a\"";
  expect_completion_refused({{many + "]}", kValue, "prompt"}});
}

TEST(ParseLlama, Fields) {
  const CompletionRequest request = llama(R"({"prompt":"p","n_predict":7,"temperature":0.5,
      "n_probs":3,"cache_prompt":false,"seed":4,"json_schema":{"type":"integer"},
      "return_tokens":true,"id_slot":-1,"timings_per_token":true,"samplers":[],"mirostat":0,
      "n_keep":4,"stop":["a"],"stream":true,"return_progress":true,"repeat_penalty":1.1,
      "grammar":"","dynatemp_range":0})");
  EXPECT_EQ(request.fields.max_tokens, 7);
  EXPECT_EQ(request.fields.top_logprobs, 3);
  EXPECT_FALSE(request.fields.use_cache);
  EXPECT_TRUE(request.fields.has_seed);
  EXPECT_EQ(request.fields.sampling.seed, 4u);
  EXPECT_EQ(request.fields.sampling.repetition_penalty, 1.1);
  ASSERT_TRUE(request.schema);
  EXPECT_EQ(to_json(*request.schema), R"({"type":"integer"})");
  EXPECT_TRUE(request.fields.return_token_ids);
  EXPECT_TRUE(request.fields.return_progress);
  EXPECT_TRUE(request.fields.unknown.empty());
}

TEST(ParseLlama, WordsForWhatFits) {
  EXPECT_FALSE(llama(R"({"prompt":"p"})").fields.max_tokens);
  EXPECT_FALSE(llama(R"({"prompt":"p","n_predict":-1})").fields.max_tokens);
  EXPECT_EQ(llama(R"({"prompt":"p","max_tokens":5})").fields.max_tokens, 5);
  EXPECT_FALSE(llama(R"({"prompt":"p","seed":-1})").fields.has_seed);
  EXPECT_FALSE(llama(R"({"prompt":"p","seed":4294967295})").fields.has_seed);
  EXPECT_TRUE(llama(R"({"prompt":"p","seed":0})").fields.has_seed);
  EXPECT_EQ(llama(R"({"prompt":"p","n_probs":0})").fields.top_logprobs, -1);
}

TEST(ParseLlama, Refuses) {
  const auto with = [](const std::string& member) { return "{\"prompt\":\"p\"," + member + "}"; };
  expect_llama_refused({
      {"{}", kMissing, "prompt"},
      {with(R"("n_predict":-2)"), kValue, "n_predict"},
      {with(R"("n_predict":0)"), kValue, "n_predict"},
      {with(R"("max_tokens":0)"), kValue, "max_tokens"},
      {with(R"("n_predict":"5")"), kType, "n_predict"},
      {with(R"("n_predict":5,"max_tokens":6)"), kValue, "max_tokens"},
      {with(R"("n_probs":21)"), kValue, "n_probs"},
      {with(R"("n_probs":-1)"), kValue, "n_probs"},
      {with(R"("id_slot":"a")"), kType, "id_slot"},
      {with(R"("json_schema":"x")"), kType, "json_schema"},
      {with(R"("return_tokens":1)"), kType, "return_tokens"},
      {with(R"("grammar":"root ::= \"a\"")"), kUnsupported, "grammar"},
      {with(R"("samplers":["top_k"])"), kUnsupported, "samplers"},
      {with(R"("mirostat":2)"), kUnsupported, "mirostat"},
      {with(R"("image_data":[{}])"), kUnsupported, "image_data"},
      {with(R"("logit_bias":[["word",-1]])"), kType, "logit_bias[0][0]"},
      {with(R"("cache_prompt":"no")"), kType, "cache_prompt"},
  });
}

TEST(ParseTokenize, Bodies) {
  const auto request = parse_tokenize_request(
      R"({"content":"a","add_special":true,"parse_special":false,"with_pieces":true})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->content, "a");
  EXPECT_TRUE(request->add_special);
  EXPECT_FALSE(request->parse_special);
  EXPECT_TRUE(request->with_pieces);
  const auto least = parse_tokenize_request(R"({"prompt":"b","x":1})");
  ASSERT_TRUE(least);
  EXPECT_EQ(least->content, "b");
  EXPECT_FALSE(least->add_special);
  EXPECT_TRUE(least->parse_special);
  const auto messages = parse_tokenize_request(R"({"messages":[{"role":"user","content":"hi"}]})");
  ASSERT_TRUE(messages && messages->chat);
  EXPECT_EQ(messages->chat->messages.size(), 1u);
  expect_all_refused(
      parse_tokenize_request,
      {
          {"{}", kMissing, "content"},
          {R"({"content":5})", kType, "content"},
          {R"({"content":["a"]})", kType, "content"},
          {R"({"content":"a","prompt":"b"})", kValue, "prompt"},
          {R"({"content":"a","with_pieces":1})", kType, "with_pieces"},
          {R"({"content":"a","messages":[{"role":"user","content":"hi"}]})", kValue, "messages"},
          {R"({"messages":[{"role":"user"}]})", kMissing, "messages[0].content"},
          {"[]", kType, ""},
      });
}

TEST(ParseTokenize, MessagesWithWhatElseTheirPromptIsMadeOf) {
  const std::string start = R"({"messages":[{"role":"user","content":"hi"}],)";
  const auto request = parse_tokenize_request(
      start + R"("model":"m","odd":1,"tools":[{"type":"function","function":{"name":"f"}}],)"
              R"("chat_template_kwargs":{"a":1},"reasoning_effort":"low"})");
  ASSERT_TRUE(request && request->chat);
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(request->unknown, std::vector<std::string>{"odd"});
  EXPECT_EQ(request->chat->tools.definitions.size(), 1u);
  EXPECT_EQ(request->chat->template_variables, (JsonObject{{"a", 1}}));
  EXPECT_EQ(request->chat->reasoning_effort, "low");
  expect_all_refused(
      parse_tokenize_request,
      {
          {start + R"("tools":5})", kType, "tools"},
          {start + R"("reasoning_effort":"most"})", kValue, "reasoning_effort"},
          {start + R"("add_generation_prompt":0})", kType, "add_generation_prompt"},
          {start + R"("chat_template":"x"})", kUnsupported, "chat_template"},
          {start + R"("add_special":true})", kValue, "add_special"},
          {start + R"("add_special_tokens":true})", kValue, "add_special_tokens"},
          {start + R"("parse_special":false})", kValue, "parse_special"},
          {R"({"content":"a","tools":[]})", kValue, "tools"},
          {R"({"content":"a","reasoning_effort":"low"})", kValue, "reasoning_effort"},
          {R"({"content":"a","return_token_strs":true})", kUnsupported, "return_token_strs"},
      });
}

TEST(ParseDetokenize, Bodies) {
  EXPECT_EQ(parse_detokenize_request(R"({"tokens":[3,1.0]})")->tokens, (Ids{3, 1}));
  EXPECT_TRUE(parse_detokenize_request(R"({"tokens":[]})")->tokens.empty());
  EXPECT_EQ(parse_detokenize_request(R"({"tokens":[],"odd":1})")->unknown,
            std::vector<std::string>{"odd"});
  expect_all_refused(parse_detokenize_request, {
                                                   {"{}", kMissing, "tokens"},
                                                   {R"({"tokens":"a"})", kType, "tokens"},
                                                   {R"({"tokens":["a"]})", kType, "tokens[0]"},
                                                   {R"({"tokens":[1,-1]})", kValue, "tokens[1]"},
                                                   {R"({"tokens":[2.5]})", kType, "tokens[0]"},
                                               });
}

}  // namespace
}  // namespace reprise::testing
