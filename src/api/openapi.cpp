// The document: paths, and the schemas that they refer to.
#include "api/openapi.h"

#include <array>

#include <fmt/core.h>

#include "api/openai_fields.h"
#include "api/responses_request.h"

namespace reprise {
namespace {

constexpr std::array<std::string_view, 1> kSaltQuery = {"cache_salt"};
constexpr std::array<std::string_view, 2> kTreeQuery = {"cache_salt", "limit"};
constexpr std::array<std::string_view, 3> kItemsQuery = {"after", "limit", "order"};

constexpr std::array kRoutes = {
    RouteDescription{"POST", "/v1/chat/completions", "A reply to messages.",
                     "ChatCompletionRequest", "ChatCompletion", "ChatCompletionChunk"},
    RouteDescription{"POST", "/chat/completions", "/v1/chat/completions.", "ChatCompletionRequest",
                     "ChatCompletion", "ChatCompletionChunk"},
    RouteDescription{"POST", "/v1/completions", "A continuation of texts or of token ids.",
                     "CompletionRequest", "Completion", "Completion"},
    RouteDescription{"POST", "/v1/responses", "A response, which may go on with an earlier one.",
                     "ResponseRequest", "Response", "ResponseEvent"},
    RouteDescription{"POST", "/responses", "/v1/responses.", "ResponseRequest", "Response",
                     "ResponseEvent"},
    RouteDescription{"POST", "/v1/responses/input_tokens",
                     "How many tokens the prompt of such a request has.", "ResponseRequest",
                     "InputTokens"},
    RouteDescription{"GET", "/v1/responses/{id}", "A kept response.", {}, "Response"},
    RouteDescription{
        "DELETE", "/v1/responses/{id}", "Forgets a kept response.", {}, "DeletedResponse"},
    RouteDescription{"GET",
                     "/v1/responses/{id}/input_items",
                     "What a kept response answered.",
                     {},
                     "List",
                     {},
                     true,
                     kItemsQuery},
    RouteDescription{"GET", "/v1/models", "The one model.", {}, "ModelList"},
    RouteDescription{"GET", "/models", "/v1/models.", {}, "ModelList"},
    RouteDescription{"GET", "/v1/models/{id}", "The model by its alias.", {}, "Model"},
    RouteDescription{"POST", "/completion", "llama-server's own form of completion.",
                     "LlamaCompletionRequest", "LlamaCompletions", "LlamaCompletion"},
    RouteDescription{"POST", "/completions", "/completion.", "LlamaCompletionRequest",
                     "LlamaCompletions", "LlamaCompletion"},
    RouteDescription{"POST", "/tokenize", "Token ids of a text or of messages.", "TokenizeRequest",
                     "Tokens"},
    RouteDescription{"POST", "/detokenize", "The text of token ids.", "DetokenizeRequest",
                     "DetokenizedText"},
    RouteDescription{"POST", "/apply-template", "The prompt that messages become.",
                     "ChatCompletionRequest", "Prompt"},
    RouteDescription{"GET", "/", "What this is, and where to go on.", {}, "Root", {}, false},
    RouteDescription{"GET", "/health", "Whether requests are taken.", {}, "Health", {}, false},
    RouteDescription{"GET", "/v1/health", "/health.", {}, "Health", {}, false},
    RouteDescription{"GET",
                     "/ready",
                     "Whether the model is loaded and requests are taken.",
                     {},
                     "Health",
                     {},
                     false},
    RouteDescription{"GET", "/props", "What the server serves, and how.", {}, "Props"},
    RouteDescription{"GET", "/metrics", "Prometheus text format."},
    RouteDescription{"GET",
                     "/v1/cache/stats",
                     "The prompt cache in numbers.",
                     {},
                     "CacheStats",
                     {},
                     true,
                     kSaltQuery},
    RouteDescription{"GET",
                     "/v1/cache/tree",
                     "What the prompt cache holds for the asker.",
                     {},
                     "CacheTree",
                     {},
                     true,
                     kTreeQuery},
    RouteDescription{"POST",
                     "/v1/cache/reset",
                     "Drops the asker's entries.",
                     {},
                     "CacheReset",
                     {},
                     true,
                     kSaltQuery},
    RouteDescription{"GET", "/openapi.json", "This document.", {}, "Document", {}, false},
};

JsonObject reference(std::string_view name) {
  return {{"$ref", fmt::format("#/components/schemas/{}", name)}};
}

JsonObject content(std::string_view media_type, JsonObject schema) {
  return {{media_type, JsonObject{{"schema", std::move(schema)}}}};
}

JsonObject request_schemas(const Limits& limits) {
  return {{"ChatCompletionRequest", chat_request_schema(limits)},
          {"CompletionRequest", completion_request_schema(limits)},
          {"LlamaCompletionRequest", llama_completion_request_schema(limits)},
          {"ResponseRequest", responses_request_schema(limits)},
          {"TokenizeRequest", tokenize_request_schema(limits)},
          {"DetokenizeRequest", detokenize_request_schema(limits)}};
}

JsonArray parameters_of(const RouteDescription& route) {
  JsonArray parameters;
  if (route.path.ends_with("{id}") || route.path.find("{id}/") != std::string_view::npos) {
    parameters.push_back(JsonObject{{"name", "id"},
                                    {"in", "path"},
                                    {"required", true},
                                    {"schema", JsonObject{{"type", "string"}}}});
  }
  for (const std::string_view name : route.query) {
    const std::string_view type = name == "limit" ? "integer" : "string";
    parameters.push_back(
        JsonObject{{"name", name}, {"in", "query"}, {"schema", JsonObject{{"type", type}}}});
  }
  return parameters;
}

JsonObject responses_of(const RouteDescription& route) {
  JsonObject whole = route.reply.empty() ? content("text/plain", JsonObject{{"type", "string"}})
                                         : content("application/json", reference(route.reply));
  if (!route.events.empty()) {
    // 3.1 has no word for a stream of events: the schema is that of one event's data.
    whole["text/event-stream"] = JsonObject{{"schema", reference(route.events)}};
  }
  const JsonObject error{{"description", "What is wrong, and with which field."},
                         {"content", content("application/json", reference("Error"))}};
  return {{"200", JsonObject{{"description", route.summary}, {"content", std::move(whole)}}},
          {"4XX", error},
          {"5XX", error}};
}

// "post_v1_chat_completions"
std::string operation_id(const RouteDescription& route) {
  std::string id;
  for (const char letter : route.method) id += static_cast<char>(letter | 0x20);
  for (const char letter : route.path) {
    const bool is_letter = (letter | 0x20) >= 'a' && (letter | 0x20) <= 'z';
    if (is_letter) {
      id += letter;
    } else if (id.back() != '_' && (letter == '/' || letter == '-' || letter == '.')) {
      id += '_';
    } else if (letter >= '0' && letter <= '9') {
      id += letter;
    }
  }
  return id;
}

JsonObject operation_of(const RouteDescription& route) {
  JsonObject operation{{"operationId", operation_id(route)},
                       {"summary", route.summary},
                       {"responses", responses_of(route)}};
  JsonArray parameters = parameters_of(route);
  if (!parameters.empty()) operation["parameters"] = std::move(parameters);
  if (!route.request.empty()) {
    operation["requestBody"] = JsonObject{
        {"required", true}, {"content", content("application/json", reference(route.request))}};
  }
  if (!route.needs_key) operation["security"] = JsonArray();
  return operation;
}

JsonObject paths_of(std::span<const RouteDescription> routes) {
  JsonObject paths;
  for (const RouteDescription& route : routes) {
    std::string method;
    for (const char letter : route.method) method += static_cast<char>(letter | 0x20);
    JsonValue& path = paths[route.path];
    if (!path.is_object()) path = JsonObject();
    path.get_object()[method] = operation_of(route);
  }
  return paths;
}

}  // namespace

std::span<const RouteDescription> route_descriptions() {
  return kRoutes;
}

std::string openapi_document(std::span<const RouteDescription> routes, const Limits& limits,
                             std::string_view version) {
  JsonObject schemas = request_schemas(limits);
  for (auto& member : reply_schemas()) schemas[member.key()] = std::move(member.value());
  const JsonObject bearer{{"type", "http"}, {"scheme", "bearer"}};
  const JsonObject document{
      {"openapi", "3.1.0"},
      {"info", JsonObject{{"title", "reprise"},
                          {"version", version},
                          {"description",
                           "A member that is null counts as absent, but not inside schemas "
                           "and chat_template_kwargs; unknown fields are ignored and named in "
                           "the header x-reprise-ignored. A key is needed where the server "
                           "has keys."}}},
      {"paths", paths_of(routes)},
      {"security", JsonArray{JsonObject{{"key", JsonArray()}}, JsonObject()}},
      {"components", JsonObject{{"securitySchemes", JsonObject{{"key", bearer}}},
                                {"schemas", std::move(schemas)}}}};
  return to_json(document);
}

}  // namespace reprise
