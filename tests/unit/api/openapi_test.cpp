// The OpenAPI document: whole, in step with the tables, without loose ends.
#include "api/openapi.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/openai_fields.h"
#include "api/responses_request.h"
#include "api/routes.h"
#include "openai_parse_cases.h"

namespace reprise::testing {
namespace {

JsonValue document() {
  Result<JsonValue> value = parse_json(openapi_document(route_descriptions(), Limits(), "1.2.3"));
  EXPECT_TRUE(value) << (value ? "" : value.error().message);
  return value ? std::move(*value) : JsonValue();
}

void collect_references(const JsonValue& value, std::set<std::string>& references) {
  if (const JsonArray* list = value.if_array()) {
    for (const JsonValue& item : *list) collect_references(item, references);
  }
  const JsonObject* object = value.if_object();
  if (!object) return;
  for (const auto& member : *object) {
    if (member.key() == "$ref") references.insert(std::string(member.value().as_string()));
    collect_references(member.value(), references);
  }
}

TEST(OpenApi, EveryReferenceResolvesAndEverySchemaIsUsed) {
  const JsonValue whole = document();
  const JsonObject& schemas = whole.at("components").at("schemas").as_object();
  std::set<std::string> references;
  collect_references(whole, references);
  const std::string prefix = "#/components/schemas/";
  for (const std::string& reference : references) {
    ASSERT_TRUE(reference.starts_with(prefix)) << reference;
    EXPECT_TRUE(schemas.contains(reference.substr(prefix.size()))) << reference;
  }
  for (const auto& schema : schemas) {
    EXPECT_TRUE(references.contains(prefix + std::string(schema.key()))) << schema.key();
  }
}

// The one rule of JSON schema that generated types could break.
void expect_distinct_types(const JsonValue& value) {
  if (const JsonArray* list = value.if_array()) {
    for (const JsonValue& item : *list) expect_distinct_types(item);
  }
  const JsonObject* object = value.if_object();
  if (!object) return;
  for (const auto& member : *object) {
    const JsonArray* types = member.key() == "type" ? member.value().if_array() : nullptr;
    if (types) {
      std::set<std::string> names;
      for (const JsonValue& name : *types) names.insert(std::string(name.as_string()));
      EXPECT_EQ(names.size(), types->size()) << to_json(value);
    }
    expect_distinct_types(member.value());
  }
}

TEST(OpenApi, TypesAreNamedOnce) {
  expect_distinct_types(document().at("components"));
}

TEST(OpenApi, EveryRowOfEveryTableIsThere) {
  const JsonValue whole = document();
  const auto has = [&](const char* schema, std::string_view field) {
    return whole.at("components")
        .at("schemas")
        .at(schema)
        .at("properties")
        .as_object()
        .contains(field);
  };
  for (const char* schema :
       {"ChatCompletionRequest", "CompletionRequest", "LlamaCompletionRequest"}) {
    const auto expect_all = [&](const auto& table) {
      for (const FieldSpec& field : table) {
        EXPECT_TRUE(has(schema, field.name)) << schema << " " << field.name;
        EXPECT_TRUE(field.alias.empty() || has(schema, field.alias)) << field.alias;
      }
    };
    expect_all(sampling_fields());
    expect_all(dry_fields());
    expect_all(generation_fields());
  }
  for (const char* field : {"messages", "tools", "tool_choice", "parallel_tool_calls",
                            "response_format", "reasoning_effort", "chat_template_kwargs",
                            "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs"}) {
    EXPECT_TRUE(has("ChatCompletionRequest", field)) << field;
  }
  for (const char* field : {"prompt", "echo", "logprobs", "max_tokens"}) {
    EXPECT_TRUE(has("CompletionRequest", field)) << field;
  }
  for (const char* field : {"prompt", "n_predict", "n_probs", "json_schema", "return_tokens",
                            "id_slot", "cache_prompt", "repeat_penalty"}) {
    EXPECT_TRUE(has("LlamaCompletionRequest", field)) << field;
  }
  for (const char* field : {"content", "messages", "add_special", "with_pieces", "tools",
                            "chat_template_kwargs", "reasoning_effort", "model"}) {
    EXPECT_TRUE(has("TokenizeRequest", field)) << field;
  }
  EXPECT_TRUE(has("DetokenizeRequest", "tokens"));
}

// A request that has every field of the schema (with a value of its type) leaves nothing unknown:
// what is documented is what is read.
TEST(OpenApi, WhatIsDocumentedIsKnownToTheParser) {
  const JsonObject schema = chat_request_schema(Limits());
  for (const auto& member : schema.at("properties").as_object()) {
    const std::string name(member.key());
    if (name == "messages") continue;
    const auto request =
        parse_chat_request(R"({"messages":[{"role":"user","content":"hi"}],")" + name + "\":null}");
    ASSERT_TRUE(request) << name;
    EXPECT_TRUE(request->fields.unknown.empty()) << name;
  }
  const JsonObject llama_schema = llama_completion_request_schema(Limits());
  for (const auto& member : llama_schema.at("properties").as_object()) {
    const std::string name(member.key());
    if (name == "prompt") continue;
    const auto request = parse_llama_completion_request(R"({"prompt":"p",")" + name + "\":null}");
    ASSERT_TRUE(request) << name;
    EXPECT_TRUE(request->fields.unknown.empty()) << name;
  }
}

TEST(OpenApi, BoundsComeFromTheLimits) {
  Limits limits;
  limits.choices_max = 3;
  limits.top_k_max = 77;
  const JsonObject schema = chat_request_schema(limits);
  const JsonValue& properties = schema.at("properties");
  EXPECT_EQ(properties.at("n").at("maximum").as_int64(), 3);
  EXPECT_EQ(properties.at("top_k").at("maximum").as_int64(), 77);
  EXPECT_EQ(properties.at("temperature").at("default").as_int64(), 1);
  EXPECT_EQ(properties.at("temperature").at("type"), (JsonArray{"number", "null"}));
  EXPECT_EQ(schema.at("required"), (JsonArray{"messages"}));
}

// Defaults that the tables state are those that a request without the field gets.
TEST(OpenApi, DefaultsAreThoseOfTheStructs) {
  const GenerationFields fields;
  const auto fallback = [](const auto& table, std::string_view name) {
    for (const FieldSpec& field : table) {
      if (field.name == name) return parse_json(field.fallback).value().to_number<double>();
    }
    ADD_FAILURE() << name;
    return 0.0;
  };
  const SamplingParams& sampling = fields.sampling;
  EXPECT_EQ(fallback(sampling_fields(), "temperature"), sampling.temperature);
  EXPECT_EQ(fallback(sampling_fields(), "top_p"), sampling.top_p);
  EXPECT_EQ(fallback(sampling_fields(), "top_k"), sampling.top_k);
  EXPECT_EQ(fallback(sampling_fields(), "min_p"), sampling.min_p);
  EXPECT_EQ(fallback(sampling_fields(), "typical_p"), sampling.typical_p);
  EXPECT_EQ(fallback(sampling_fields(), "xtc_probability"), sampling.xtc_probability);
  EXPECT_EQ(fallback(sampling_fields(), "xtc_threshold"), sampling.xtc_threshold);
  EXPECT_EQ(fallback(sampling_fields(), "repetition_penalty"), sampling.repetition_penalty);
  EXPECT_EQ(fallback(sampling_fields(), "repeat_last_n"), sampling.repetition_window);
  EXPECT_EQ(fallback(sampling_fields(), "frequency_penalty"), sampling.frequency_penalty);
  EXPECT_EQ(fallback(sampling_fields(), "presence_penalty"), sampling.presence_penalty);
  EXPECT_EQ(fallback(dry_fields(), "dry_multiplier"), sampling.dry.multiplier);
  EXPECT_EQ(fallback(dry_fields(), "dry_base"), sampling.dry.base);
  EXPECT_EQ(fallback(dry_fields(), "dry_allowed_length"), sampling.dry.allowed_length);
  EXPECT_EQ(fallback(dry_fields(), "dry_penalty_last_n"), sampling.dry.window);
  EXPECT_EQ(fallback(generation_fields(), "n"), fields.choices);
  EXPECT_EQ(fallback(generation_fields(), "min_tokens"), fields.min_tokens);
}

// What is described is served, and what is served is described.
TEST(OpenApi, RoutesAreThoseOfTheServer) {
  std::set<Endpoint> described = {Endpoint::preflight, Endpoint::none};
  for (const RouteDescription& description : route_descriptions()) {
    std::string path(description.path);
    const std::size_t id = path.find("{id}");
    if (id != std::string::npos) path.replace(id, 4, "x");
    const ApiResult<Route> route = find_route(description.method, path);
    ASSERT_TRUE(route) << path;
    EXPECT_EQ(route->needs_key, description.needs_key) << path;
    EXPECT_EQ(route->has_body, !description.request.empty()) << path;
    described.insert(route->endpoint);
  }
  for (int endpoint = 0; endpoint <= static_cast<int>(Endpoint::none); endpoint++) {
    EXPECT_TRUE(described.contains(static_cast<Endpoint>(endpoint)))
        << endpoint_name(static_cast<Endpoint>(endpoint));
  }
}

TEST(OpenApi, OtherPathsOfEndpointsAreThereToo) {
  const JsonObject paths = document().at("paths").as_object();
  for (const char* path :
       {"/chat/completions", "/completions", "/responses", "/models", "/v1/health"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
}

TEST(OpenApi, OperationsHaveTheirOwnNames) {
  const JsonValue whole = document();
  std::set<std::string> names;
  std::size_t count = 0;
  for (const auto& path : whole.at("paths").as_object()) {
    for (const auto& operation : path.value().as_object()) {
      names.insert(std::string(operation.value().at("operationId").as_string()));
      count++;
    }
  }
  EXPECT_EQ(names.size(), count);
  EXPECT_EQ(count, route_descriptions().size());
  EXPECT_TRUE(names.contains("post_v1_chat_completions"));
}

}  // namespace
}  // namespace reprise::testing
