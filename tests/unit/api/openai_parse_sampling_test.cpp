// The fields of sampling, stops, counts and streams: what they become, and what is refused.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "openai_parse_cases.h"

namespace reprise::testing {
namespace {

TEST(ParseSampling, EveryField) {
  const GenerationFields fields = chat(chat_with(R"(
      "temperature":0.7,"top_p":0.9,"top_k":40,"min_p":0.05,"typical_p":0.95,
      "xtc_probability":0.5,"xtc_threshold":0.2,"dry_multiplier":0.8,"dry_base":2,
      "dry_allowed_length":3,"dry_penalty_last_n":256,"dry_sequence_breakers":["\n","#"],
      "repetition_penalty":1.1,"repeat_last_n":64,"frequency_penalty":-2,"presence_penalty":1.5,
      "logit_bias":{"7":-100,"3":1.5},"seed":11,"n":4,"min_tokens":2,"max_tokens":9,
      "ignore_eos":true,"stop":"x","stop_token_ids":[5,6],"stream":true,"return_progress":true)"))
                                      .fields;
  const SamplingParams& sampling = fields.sampling;
  EXPECT_EQ(sampling.temperature, 0.7);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.min_p, 0.05);
  EXPECT_EQ(sampling.typical_p, 0.95);
  EXPECT_EQ(sampling.xtc_probability, 0.5);
  EXPECT_EQ(sampling.xtc_threshold, 0.2);
  EXPECT_EQ(sampling.dry.multiplier, 0.8);
  EXPECT_EQ(sampling.dry.base, 2.0);
  EXPECT_EQ(sampling.dry.allowed_length, 3);
  EXPECT_EQ(sampling.dry.window, 256);
  EXPECT_EQ(fields.dry_breakers, (std::vector<std::string>{"\n", "#"}));
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
  EXPECT_EQ(sampling.repetition_window, 64);
  EXPECT_EQ(sampling.frequency_penalty, -2.0);
  EXPECT_EQ(sampling.presence_penalty, 1.5);
  ASSERT_EQ(sampling.logit_bias.size(), 2u);
  EXPECT_EQ(sampling.logit_bias[0].id, 3);
  EXPECT_EQ(sampling.logit_bias[0].bias, 1.5f);
  EXPECT_EQ(sampling.logit_bias[1].id, 7);
  EXPECT_EQ(sampling.seed, 11u);
  EXPECT_EQ(fields.choices, 4);
  EXPECT_EQ(fields.min_tokens, 2);
  EXPECT_TRUE(fields.ignore_eos);
  EXPECT_EQ(fields.stop, (std::vector<std::string>{"x"}));
  EXPECT_EQ(fields.stop_token_ids, (std::vector<TokenId>{5, 6}));
  EXPECT_TRUE(fields.return_progress);
  EXPECT_TRUE(fields.unknown.empty());
}

TEST(ParseSampling, Defaults) {
  const GenerationFields fields = chat(chat_with(R"("n":null)")).fields;
  EXPECT_EQ(fields.choices, 1);
  EXPECT_EQ(fields.sampling.typical_p, 1.0);
  EXPECT_EQ(fields.sampling.repetition_penalty, 1.0);
  EXPECT_EQ(fields.sampling.repetition_window, -1);
  EXPECT_EQ(fields.sampling.dry.multiplier, 0.0);
  EXPECT_EQ(fields.dry_breakers, (std::vector<std::string>{"\n", ":", "\"", "*"}));
  EXPECT_TRUE(chat(chat_with(R"("dry_sequence_breakers":[])")).fields.dry_breakers.empty());
  EXPECT_FALSE(fields.ignore_eos);
  EXPECT_EQ(fields.min_tokens, 0);
}

TEST(ParseSampling, BothNamesOfOneFieldWhenEqual) {
  EXPECT_EQ(chat(chat_with(R"("repeat_penalty":1.2)")).fields.sampling.repetition_penalty, 1.2);
  EXPECT_EQ(chat(chat_with(R"("repeat_penalty":2,"repetition_penalty":2.0)"))
                .fields.sampling.repetition_penalty,
            2.0);
  expect_chat_refused({
      {chat_with(R"("repeat_penalty":1.2,"repetition_penalty":1.3)"), kValue, "repeat_penalty"},
      {chat_with(R"("repeat_penalty":"x")"), kType, "repeat_penalty"},
      {chat_with(R"("max_tokens":5,"max_completion_tokens":6)"), kValue, "max_completion_tokens"},
  });
  EXPECT_EQ(
      parse_chat_request(chat_with(R"("max_tokens":5,"max_completion_tokens":6)")).error().message,
      "max_completion_tokens: got 6, but max_tokens is 5");
}

TEST(ParseSampling, LogitBiasAsPairs) {
  const auto biases =
      chat(chat_with(R"("logit_bias":[[9,-1],[2,false],[5,3.5]])")).fields.sampling.logit_bias;
  ASSERT_EQ(biases.size(), 3u);
  EXPECT_EQ(biases[0].id, 2);
  EXPECT_EQ(biases[0].bias, -100.0f);
  EXPECT_EQ(biases[1].id, 5);
  EXPECT_EQ(biases[1].bias, 3.5f);
  EXPECT_EQ(biases[2].id, 9);
}

TEST(ParseSampling, RefusesBadLogitBias) {
  expect_chat_refused({
      {chat_with(R"("logit_bias":"x")"), kType, "logit_bias"},
      {chat_with(R"("logit_bias":5)"), kType, "logit_bias"},
      {chat_with(R"("logit_bias":{"x":1})"), kValue, "logit_bias"},
      {chat_with(R"("logit_bias":{"":1})"), kValue, "logit_bias"},
      {chat_with(R"("logit_bias":{"-1":1})"), kValue, "logit_bias"},
      {chat_with(R"("logit_bias":{"-0":1})"), kValue, "logit_bias"},
      {chat_with(R"("logit_bias":{"01":1})"), kValue, "logit_bias"},
      {chat_with(R"("logit_bias":{"1.0":1})"), kValue, "logit_bias"},
      {chat_with(R"("logit_bias":{"2147483648":1})"), kValue, "logit_bias"},
      {chat_with(R"("logit_bias":{"a\u0001b\n":1})"), kValue, "logit_bias"},
      {chat_with(R"("logit_bias":{"5":"x"})"), kType, "logit_bias.5"},
      {chat_with(R"("logit_bias":{"5":null})"), kType, "logit_bias.5"},
      {chat_with(R"("logit_bias":{"5":100.5})"), kValue, "logit_bias.5"},
      {chat_with(R"("logit_bias":{"5":-101})"), kValue, "logit_bias.5"},
      {chat_with(R"("logit_bias":{"5":1e300})"), kValue, "logit_bias.5"},
      {chat_with(R"("logit_bias":[5])"), kType, "logit_bias[0]"},
      {chat_with(R"("logit_bias":[[5]])"), kValue, "logit_bias[0]"},
      {chat_with(R"("logit_bias":[[5,1,2]])"), kValue, "logit_bias[0]"},
      {chat_with(R"("logit_bias":[["5",1]])"), kType, "logit_bias[0][0]"},
      {chat_with(R"("logit_bias":[[-5,1]])"), kValue, "logit_bias[0][0]"},
      {chat_with(R"("logit_bias":[[5,true]])"), kType, "logit_bias[0][1]"},
      {chat_with(R"("logit_bias":[[5,1],[5,1]])"), kValue, "logit_bias"},
  });
}

TEST(ParseSampling, RefusesBadNumbers) {
  expect_chat_refused({
      {chat_with(R"("typical_p":1.1)"), kValue, "typical_p"},
      {chat_with(R"("typical_p":"1")"), kType, "typical_p"},
      {chat_with(R"("xtc_probability":-0.1)"), kValue, "xtc_probability"},
      {chat_with(R"("xtc_threshold":2)"), kValue, "xtc_threshold"},
      {chat_with(R"("dry_multiplier":-1)"), kValue, "dry_multiplier"},
      {chat_with(R"("dry_base":0.5)"), kValue, "dry_base"},
      {chat_with(R"("dry_allowed_length":0)"), kValue, "dry_allowed_length"},
      {chat_with(R"("dry_allowed_length":1.5)"), kType, "dry_allowed_length"},
      {chat_with(R"("dry_penalty_last_n":-2)"), kValue, "dry_penalty_last_n"},
      {chat_with(R"("dry_sequence_breakers":"x")"), kType, "dry_sequence_breakers"},
      {chat_with(R"("dry_sequence_breakers":[""])"), kValue, "dry_sequence_breakers[0]"},
      {chat_with(R"("dry_sequence_breakers":["a",1])"), kType, "dry_sequence_breakers[1]"},
      {chat_with(R"("repetition_penalty":0)"), kValue, "repetition_penalty"},
      {chat_with(R"("repetition_penalty":[])"), kType, "repetition_penalty"},
      {chat_with(R"("repeat_last_n":-2)"), kValue, "repeat_last_n"},
      {chat_with(R"("repeat_last_n":1e99)"), kValue, "repeat_last_n"},
      {chat_with(R"("frequency_penalty":2.1)"), kValue, "frequency_penalty"},
      {chat_with(R"("presence_penalty":-2.1)"), kValue, "presence_penalty"},
      {chat_with(R"("presence_penalty":"x")"), kType, "presence_penalty"},
      {chat_with(R"("n":129)"), kValue, "n"},
      {chat_with(R"("n":-1)"), kValue, "n"},
      {chat_with(R"("min_tokens":-1)"), kValue, "min_tokens"},
      {chat_with(R"("min_tokens":5,"max_tokens":4)"), kValue, "min_tokens"},
      {chat_with(R"("ignore_eos":"yes")"), kType, "ignore_eos"},
      {chat_with(R"("stop_token_ids":5)"), kType, "stop_token_ids"},
      {chat_with(R"("stop_token_ids":[-1])"), kValue, "stop_token_ids[0]"},
      {chat_with(R"("stop_token_ids":[1,"a"])"), kType, "stop_token_ids[1]"},
      {chat_with(R"("return_progress":true)"), kValue, "return_progress"},
      {chat_with(R"("return_progress":1,"stream":true)"), kType, "return_progress"},
      {chat_with(R"("seed":1e16)"), kValue, "seed"},
      {chat_with(R"("seed":true)"), kType, "seed"},
  });
}

TEST(ParseSampling, CountsCarryBothNumbers) {
  Limits limits;
  limits.logit_bias_max = 1;
  limits.stop_token_ids_max = 2;
  limits.dry_breakers_max = 1;
  limits.choices_max = 3;
  const auto message_of = [&](const std::string& member) {
    const auto request = parse_chat_request(chat_with(member), limits);
    return request ? "accepted" : request.error().message;
  };
  EXPECT_EQ(message_of(R"("logit_bias":{"1":1,"2":1})"),
            "logit_bias: got 2 tokens, expected at most 1");
  EXPECT_EQ(message_of(R"("stop_token_ids":[1,2,3])"),
            "stop_token_ids: got 3 tokens, expected at most 2");
  EXPECT_EQ(message_of(R"("dry_sequence_breakers":["a","b"])"),
            "dry_sequence_breakers: got 2 strings, expected at most 1");
  EXPECT_EQ(message_of(R"("n":4)"), "n: got 4, expected 1 to 3");
}

}  // namespace
}  // namespace reprise::testing
