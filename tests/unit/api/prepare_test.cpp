// Parsed requests to generations: choices, prompts, endings, echoes, grammars, and every refusal
// with its field.
#include "api/prepare.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bundle_fixture.h"

namespace reprise {
namespace {

using testing::kTinyBos;
using testing::kTinyEndOfTurn;
using testing::kTinyEos;
using testing::kTinyVocabulary;

constexpr Position kContext = 600;

JsonObject tool_definition(const std::string& name, const JsonObject& parameters) {
  return {{"type", "function"},
          {"function", JsonObject{{"name", name}, {"parameters", parameters}}}};
}

JsonObject city_schema() {
  return {{"type", "object"},
          {"properties", JsonObject{{"city", JsonObject{{"type", "string"}}}}},
          {"required", JsonArray{"city"}}};
}

void add_tool(Tools& tools, const std::string& name, const JsonObject& parameters) {
  tools.places.push_back(fmt::format("tools[{}].function", tools.definitions.size()));
  tools.definitions.push_back(tool_definition(name, parameters));
  tools.specs.push_back({name, parameters});
  tools.choice = ToolChoice::automatic;
}

class PrepareTest : public testing::BundleOnlyTest {
 protected:
  PrepareContext context() const {
    return {.bundle = bundle.get(),
            .model_alias = "tiny",
            .tenant = {},
            .context_length = kContext,
            .fitting_length = 500,
            .limits = {},
            .request_timeout_ms = 1234};
  }
  static ChatRequest chat() {
    ChatRequest request;
    request.messages = {{"user", "tell me of the sea"}};
    return request;
  }
  static CompletionRequest completion(std::vector<PromptInput> prompts) {
    CompletionRequest request;
    request.prompts = std::move(prompts);
    return request;
  }
  PreparedGeneration prepare(ChatRequest request) const {
    ApiResult<PreparedGeneration> prepared = prepare_chat(context(), std::move(request));
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? std::move(*prepared) : PreparedGeneration();
  }
  PreparedGeneration prepare(CompletionRequest request) const {
    ApiResult<PreparedGeneration> prepared = prepare_completion(context(), std::move(request));
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? std::move(*prepared) : PreparedGeneration();
  }
};

TEST_F(PrepareTest, ChoicesOfOnePrompt) {
  ChatRequest request = chat();
  request.fields.choices = 3;
  const PreparedGeneration prepared = prepare(std::move(request));
  ASSERT_EQ(prepared.generations.size(), 3u);
  for (std::uint32_t choice = 0; choice < 3; choice++) {
    const GenerationRequest& generation = prepared.generations[choice];
    EXPECT_EQ(generation.choice, choice);
    EXPECT_EQ(generation.sampling.seed, prepared.generations[0].sampling.seed);
    EXPECT_EQ(generation.sampling.seed, prepared.fields.sampling.seed);
    EXPECT_EQ(generation.prompt, prepared.generations[0].prompt);
    EXPECT_GT(generation.history_boundary, 0);
    EXPECT_EQ(generation.turn_ends, prepared.generations[0].turn_ends);
    EXPECT_EQ(generation.timeout_ms, 1234);
    EXPECT_EQ(generation.max_tokens, 500 - static_cast<Position>(generation.prompt.size()));
    EXPECT_EQ(generation.stop_ids, bundle->stop_ids());
    EXPECT_TRUE(generation.banned_ids.empty());
    EXPECT_EQ(generation.constraint, nullptr);
  }
  // Drawn anew for each request, unless the client says.
  EXPECT_NE(prepare(chat()).fields.sampling.seed, prepare(chat()).fields.sampling.seed);
  ChatRequest seeded = chat();
  seeded.fields.sampling.seed = 0;
  seeded.fields.has_seed = true;
  EXPECT_EQ(prepare(std::move(seeded)).generations[0].sampling.seed, 0u);
}

TEST_F(PrepareTest, ChoicesOfSeveralPrompts) {
  CompletionRequest request = completion({"abc", std::vector<TokenId>{kTinyBos, 9, 10}});
  request.fields.choices = 2;
  const PreparedGeneration prepared = prepare(std::move(request));
  ASSERT_EQ(prepared.generations.size(), 4u);
  EXPECT_EQ(prepared.generations[0].prompt, prepared.generations[1].prompt);
  EXPECT_EQ(prepared.generations[2].prompt, (std::vector<TokenId>{kTinyBos, 9, 10}));
  EXPECT_EQ(prepared.generations[3].prompt, prepared.generations[2].prompt);
  for (std::size_t index = 0; index < 4; index++) {
    EXPECT_EQ(prepared.generations[index].choice, index % 2);
    EXPECT_EQ(prepared.generations[index].prompt_logprobs, -1);
  }
  EXPECT_TRUE(prepared.echoes.empty());
  EXPECT_EQ(prepared.reading.format, ReplyFormat::plain);
}

TEST_F(PrepareTest, EchoesAreTheTextsAsGiven) {
  const std::vector<TokenId> ids =
      *bundle->prompts().tokenize("see<end_of_turn>", AddSpecial::no, ParseSpecial::yes);
  CompletionRequest request = completion({"a <end_of_turn> b", ids});
  request.echo = true;
  request.fields.top_logprobs = 2;
  request.fields.max_tokens = 0;
  const PreparedGeneration prepared = prepare(std::move(request));
  EXPECT_EQ(prepared.echoes, (std::vector<std::string>{"a <end_of_turn> b", "see<end_of_turn>"}));
  for (const GenerationRequest& generation : prepared.generations) {
    EXPECT_EQ(generation.max_tokens, 0);
    EXPECT_EQ(generation.prompt_logprobs, 2);
    EXPECT_EQ(generation.top_logprobs, 2);
  }
  CompletionRequest plain = completion({"abc"});
  plain.echo = true;
  EXPECT_EQ(prepare(std::move(plain)).generations[0].prompt_logprobs, -1);
}

TEST_F(PrepareTest, EndingTokens) {
  ChatRequest request = chat();
  request.fields.stop_token_ids = {9, kTinyEos, 9};
  EXPECT_EQ(prepare(std::move(request)).generations[0].stop_ids,
            (std::vector<TokenId>{9, kTinyEos, kTinyEndOfTurn}));
  request = chat();
  request.fields.stop_token_ids = {9, kTinyEos};
  request.fields.ignore_eos = true;
  request.fields.min_tokens = 7;
  const PreparedGeneration ignoring = prepare(std::move(request));
  // What the client names stops; of the model's own, the others are banned.
  EXPECT_EQ(ignoring.generations[0].stop_ids, (std::vector<TokenId>{9, kTinyEos}));
  EXPECT_EQ(ignoring.generations[0].banned_ids, (std::vector<TokenId>{kTinyEndOfTurn}));
  EXPECT_EQ(ignoring.generations[0].min_tokens, 7);
}

TEST_F(PrepareTest, SequenceBreakersAreTheTokensThatContainThem) {
  ChatRequest request = chat();
  request.fields.sampling.dry.multiplier = 0.8;
  request.fields.dry_breakers = {"\n", "he"};
  const PreparedGeneration prepared = prepare(std::move(request));
  const std::vector<TokenId>& breakers = prepared.generations[0].sampling.dry.breakers;
  EXPECT_TRUE(std::ranges::is_sorted(breakers));
  ASSERT_GE(breakers.size(), 1u);
  std::vector<TokenId> wanted;
  for (TokenId id = 0; id < kTinyVocabulary; id++) {
    const std::string_view bytes = bundle->tokenizer().token_bytes(id);
    const bool is_breaker =
        bytes.find('\n') != std::string_view::npos || bytes.find("he") != std::string_view::npos;
    if (is_breaker) wanted.push_back(id);
  }
  EXPECT_EQ(breakers, wanted);
  // Without a penalty nobody searches.
  request = chat();
  request.fields.dry_breakers = {"\n"};
  EXPECT_TRUE(prepare(std::move(request)).generations[0].sampling.dry.breakers.empty());
}

TEST_F(PrepareTest, MoreBreakersThanAreKept) {
  std::vector<std::string> texts;
  for (char letter = 'a'; letter <= 'z'; letter++) texts.emplace_back(1, letter);
  const SequenceBreakers& breakers = bundle->sequence_breakers();
  const std::vector<TokenId> all = breakers.find(texts);
  EXPECT_EQ(breakers.find(texts), all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  EXPECT_GT(all.size(), 26u);
}

// ---- grammars
// ------------------------------------------------------------------------------------

TEST_F(PrepareTest, ConstrainedRequestsHaveTheSamePrompt) {
  const PreparedGeneration plain = prepare(chat());
  ChatRequest request = chat();
  request.schema = city_schema();
  request.fields.choices = 2;
  PreparedGeneration held = prepare(std::move(request));
  ASSERT_EQ(held.generations.size(), 2u);
  for (const GenerationRequest& generation : held.generations) {
    EXPECT_EQ(generation.prompt, plain.generations[0].prompt);
    EXPECT_EQ(generation.history_boundary, plain.generations[0].history_boundary);
    ASSERT_NE(generation.constraint, nullptr);
    EXPECT_TRUE(generation.constraint->compute_mask());
  }
  EXPECT_NE(held.generations[0].constraint, held.generations[1].constraint);
  CompletionRequest text = completion({"abc"});
  text.schema = city_schema();
  EXPECT_NE(prepare(std::move(text)).generations[0].constraint, nullptr);
}

TEST_F(PrepareTest, ToolsAreShownWhateverTheChoice) {
  std::vector<std::vector<TokenId>> prompts;
  for (const ToolChoice choice : {ToolChoice::none, ToolChoice::automatic, ToolChoice::required}) {
    ChatRequest request = chat();
    add_tool(request.tools, "get_weather", city_schema());
    request.tools.choice = choice;
    const PreparedGeneration prepared = prepare(std::move(request));
    const bool may_call = choice != ToolChoice::none;
    EXPECT_EQ(prepared.reading.parser.has_tools, may_call);
    EXPECT_EQ(prepared.reading.parser.tool_names.size(), may_call ? 1u : 0u);
    EXPECT_EQ(prepared.generations[0].constraint != nullptr, may_call);
    prompts.push_back(prepared.generations[0].prompt);
  }
  EXPECT_EQ(prompts[1], prompts[0]);
  EXPECT_EQ(prompts[2], prompts[0]);
  const std::string shown = bundle->prompts().detokenize(prompts[0]).value_or("");
  EXPECT_NE(shown.find("get_weather"), std::string::npos) << shown;
  EXPECT_NE(prompts[0], prepare(chat()).generations[0].prompt);
}

// ---- refusals
// ------------------------------------------------------------------------------------

struct Refusal {
  const char* name;
  std::function<void(ChatRequest&)> change;
  std::string param, code;
  std::vector<std::string> words;  // of the message
  int status = 400;
};

std::vector<Refusal> chat_refusals() {
  const auto of_fields = [](std::function<void(GenerationFields&)> change) {
    return [change = std::move(change)](ChatRequest& request) { change(request.fields); };
  };
  return {
      {"model",
       of_fields([](GenerationFields& fields) { fields.model = "other"; }),
       "model",
       "model_not_found",
       {"other", "tiny"},
       404},
      {"stop id",
       of_fields([](GenerationFields& fields) { fields.stop_token_ids = {1, 320}; }),
       "stop_token_ids[1]",
       "invalid_value",
       {"320", "319"}},
      {"negative stop id",
       of_fields([](GenerationFields& fields) { fields.stop_token_ids = {-1}; }),
       "stop_token_ids[0]",
       "invalid_value",
       {"-1", "319"}},
      {"bias",
       of_fields(
           [](GenerationFields& fields) { fields.sampling.logit_bias = {{5, 1.0F}, {999, 1.0F}}; }),
       "logit_bias.999",
       "invalid_value",
       {"999", "319"}},
      {"choices",
       of_fields([](GenerationFields& fields) { fields.choices = 129; }),
       "n",
       "invalid_value",
       {"129", "128"}},
      {"min_tokens",
       of_fields([](GenerationFields& fields) {
         fields.min_tokens = 9;
         fields.max_tokens = 8;
       }),
       "min_tokens",
       "invalid_value",
       {"9", "8"}},
      {"min_tokens of all there is",
       of_fields([](GenerationFields& fields) { fields.min_tokens = 500; }),
       "min_tokens",
       "invalid_value",
       {"500"}},
      {"no tokens",
       of_fields([](GenerationFields& fields) { fields.max_tokens = 0; }),
       "max_tokens",
       "invalid_value",
       {"0", "1"}},
      {"long reply",
       of_fields([](GenerationFields& fields) { fields.max_tokens = 600; }),
       "max_tokens",
       "context_length_exceeded",
       {"600"}},
      {"long prompt",
       [](ChatRequest& request) { request.messages[0].content = std::string(700, 'z'); },
       "messages",
       "context_length_exceeded",
       {"600"}},
      {"no UTF-8",
       [](ChatRequest& request) { request.messages[0].content = "\xFF"; },
       "messages",
       "invalid_value",
       {"UTF-8"}},
      {"reserved name",
       [](ChatRequest& request) { request.template_variables["bos_token"] = "x"; },
       "chat_template_kwargs.bos_token",
       "invalid_value",
       {"bos_token"}},
      {"schema",
       [](ChatRequest& request) { request.schema = JsonObject{{"type", "wrong"}}; },
       "response_format.json_schema.schema",
       "invalid_value",
       {}},
      {"schema's pattern",
       [](ChatRequest& request) {
         request.schema = JsonObject{{"type", "string"}, {"pattern", std::string(60'000, '(')}};
       },
       "response_format.json_schema.schema",
       "invalid_value",
       {}},
      {"tool's schema",
       [](ChatRequest& request) {
         request.messages[0].content = "hi";  // the prompt must fit
         add_tool(request.tools, "good", {{"type", "object"}});
         add_tool(request.tools, "bad",
                  {{"type", "object"}, {"properties", JsonObject{{"a", JsonObject{{"type", 7}}}}}});
       },
       "tools[1].function.parameters",
       "invalid_value",
       {}},
  };
}

TEST_F(PrepareTest, RefusalsNameTheField) {
  for (const Refusal& refusal : chat_refusals()) {
    SCOPED_TRACE(refusal.name);
    ChatRequest request = chat();
    refusal.change(request);
    const ApiResult<PreparedGeneration> prepared = prepare_chat(context(), std::move(request));
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().param, refusal.param) << prepared.error().message;
    EXPECT_EQ(prepared.error().code, refusal.code) << prepared.error().message;
    EXPECT_EQ(prepared.error().status, refusal.status);
    EXPECT_EQ(prepared.error().message.find('\n'), std::string::npos);
    for (const std::string& word : refusal.words) {
      EXPECT_NE(prepared.error().message.find(word), std::string::npos)
          << word << " in " << prepared.error().message;
    }
  }
}

TEST_F(PrepareTest, RefusalsNameThePrompt) {
  const auto refused = [&](CompletionRequest request) {
    const ApiResult<PreparedGeneration> prepared =
        prepare_completion(context(), std::move(request));
    EXPECT_FALSE(prepared);
    return prepared ? ApiError() : prepared.error();
  };
  const std::string longer(700, 'z');
  const ApiError text = refused(completion({"abc", longer}));
  EXPECT_EQ(text.code, "context_length_exceeded");
  EXPECT_EQ(text.param, "prompt[1]");
  EXPECT_NE(text.message.find("600"), std::string::npos) << text.message;
  EXPECT_EQ(refused(completion({longer})).param, "prompt");
  const ApiError ids = refused(completion({"abc", std::vector<TokenId>{5, 320}}));
  EXPECT_EQ(ids.param, "prompt[1][1]");
  EXPECT_NE(ids.message.find("320"), std::string::npos);
  EXPECT_NE(ids.message.find("319"), std::string::npos);
  EXPECT_EQ(refused(completion({std::vector<TokenId>{5, 6, 320}})).param, "prompt[2]");
  EXPECT_EQ(refused(completion({std::vector<TokenId>{}})).param, "prompt");
  const ApiError many = refused(completion({std::vector<TokenId>(kContext, 9)}));
  EXPECT_EQ(many.code, "context_length_exceeded");
  EXPECT_EQ(many.param, "prompt");
  CompletionRequest choices = completion(std::vector<PromptInput>(3, "abc"));
  choices.fields.choices = 43;
  const ApiError most = refused(std::move(choices));
  EXPECT_EQ(most.param, "n");
  EXPECT_NE(most.message.find("129"), std::string::npos) << most.message;
  CompletionRequest silent = completion({"abc"});
  silent.fields.max_tokens = 0;
  EXPECT_EQ(refused(std::move(silent)).param, "max_tokens");
  CompletionRequest schema = completion({"abc"});
  schema.schema = JsonObject{{"type", "wrong"}};
  EXPECT_EQ(refused(std::move(schema)).param, "json_schema");
}

// An echo of a prompt that fills the context needs no place for a reply.
TEST_F(PrepareTest, EchoOfAFullContext) {
  CompletionRequest request = completion({std::vector<TokenId>(kContext, 9)});
  request.echo = true;
  request.fields.max_tokens = 0;
  EXPECT_EQ(prepare(std::move(request)).generations[0].prompt.size(), 600u);
}

}  // namespace
}  // namespace reprise
