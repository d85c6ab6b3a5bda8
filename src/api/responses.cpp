// From requests to prepared generations, and bodies of what is kept.
#include "api/responses.h"

#include <array>
#include <utility>

#include <fmt/core.h>

#include "api/json_writer.h"
#include "api/routes.h"

namespace reprise {
namespace {

constexpr std::int64_t kPageDefault = 20;  // OpenAI's numbers
constexpr std::int64_t kPageMax = 100;

// The chat's names for what a client of this API calls otherwise.
struct Renamed {
  std::string_view chat, here;
};
constexpr std::array kRenamed = {
    Renamed{"messages", "input"},
    Renamed{"max_tokens", "max_output_tokens"},
    Renamed{"response_format", "text.format"},
    Renamed{"reasoning_effort", "reasoning.effort"},
};

// Trouble that prepare_chat found, in this API's names. Which item a message came from is not
// known any more: its index is left out.
ApiError renamed(ApiError error) {
  for (const Renamed& name : kRenamed) {
    if (!error.param.starts_with(name.chat)) continue;
    if (error.message.starts_with(error.param)) {
      error.message = std::string(name.here) + error.message.substr(error.param.size());
    } else if (const std::size_t place = error.message.find(error.param);
               place != std::string::npos) {
      error.message.replace(place, error.param.size(), name.here);
    }
    error.param = name.here;
    return error;
  }
  return error;
}

std::unexpected<ApiError> not_found(std::string_view id) {
  return refuse(404, "response_not_found",
                fmt::format("no response \"{}\" is kept: it never was, has been deleted, is too "
                            "old, or had to make room",
                            clipped(id)),
                "response_id");
}

// What the items of the request stand for, kept items included.
ApiStatus resolve_references(std::vector<ResponseItem>& items, std::string_view tenant,
                             const ResponsesStore& store) {
  for (std::size_t index = 0; index < items.size(); index++) {
    if (items[index].kind != ResponseItem::Kind::reference) continue;
    std::optional<ResponseItem> item = store.item(tenant, items[index].id);
    if (!item) {
      const std::string param = fmt::format("input[{}].id", index);
      return refuse(400, "item_not_found",
                    fmt::format("{}: got \"{}\", expected the id of an item of a kept response",
                                param, clipped(items[index].id)),
                    param);
    }
    items[index] = std::move(*item);
  }
  return {};
}

ApiStatus check_fits(const std::vector<ResponseItem>& items, const ResponsesStore& store) {
  std::size_t bytes = 0;
  for (const ResponseItem& item : items) bytes += item.bytes();
  if (bytes <= store.conversation_bytes_max()) return {};
  return refuse(400, "invalid_value",
                fmt::format("store: the conversation takes {} bytes, expected at most {} to be "
                            "kept; with \"store\": false it is not kept",
                            bytes, store.conversation_bytes_max()),
                "store");
}

ResponsePlan plan_of(ResponseExtras extras, std::string_view tenant, const ChatRequest& chat) {
  ResponsePlan plan;
  plan.extras = std::move(extras);
  plan.tenant = tenant;
  plan.stream = chat.fields.stream;
  plan.use_cache = chat.fields.use_cache;
  plan.cache_details = chat.fields.cache_details ? CacheDetails::yes : CacheDetails::no;
  plan.max_output_tokens = chat.fields.max_tokens;
  plan.temperature = chat.fields.sampling.temperature;
  plan.top_p = chat.fields.sampling.top_p;
  plan.top_logprobs = chat.fields.top_logprobs;
  plan.parallel_tool_calls = chat.tools.parallel;
  plan.reasoning_effort = chat.reasoning_effort;
  return plan;
}

ApiResult<bool> wants_ascending(std::string_view query) {
  TRY_ASSIGN(const std::optional<std::string> order, query_value(query, "order"));
  if (!order || *order == "desc") return false;
  if (*order == "asc") return true;
  return refuse(400, "invalid_value",
                fmt::format("order: got \"{}\", expected asc or desc", clipped(*order)), "order");
}

}  // namespace

ApiResult<PreparedResponse> prepare_response(const PrepareContext& context, std::string_view body,
                                             const ResponsesStore& store) {
  TRY_ASSIGN(ResponsesRequest request, parse_responses_request(body, context.limits));
  const std::string& previous_id = request.extras.previous_response_id;
  std::vector<ResponseItem> items;
  if (!previous_id.empty()) {
    std::optional<std::vector<ResponseItem>> previous =
        store.conversation(context.tenant, previous_id);
    if (!previous) {
      return refuse(400, "previous_response_not_found",
                    fmt::format("previous_response_id: no response \"{}\" is kept: it never was, "
                                "has been deleted, is too old, or had to make room",
                                clipped(previous_id)),
                    "previous_response_id");
    }
    items = std::move(*previous);
  }
  const std::size_t history = items.size();
  TRY(resolve_references(request.input, context.tenant, store));
  std::move(request.input.begin(), request.input.end(), std::back_inserter(items));
  if (request.extras.store) TRY(check_fits(items, store));
  TRY_ASSIGN(request.chat.messages,
             response_messages(request.extras.instructions.value_or(""), items, history));
  PreparedResponse prepared;
  prepared.plan = plan_of(std::move(request.extras), context.tenant, request.chat);
  prepared.plan.items = std::move(items);
  ApiResult<PreparedGeneration> generation = prepare_chat(context, std::move(request.chat));
  if (!generation) return std::unexpected(renamed(std::move(generation).error()));
  prepared.generation = std::move(*generation);
  return prepared;
}

ApiResult<std::string> response_body(const ResponsesStore& store, std::string_view tenant,
                                     std::string_view id, std::string_view query) {
  for (const char* name : {"stream", "starting_after"}) {
    TRY_ASSIGN(const std::optional<std::string> value, query_value(query, name));
    if (value && *value != "false") {
      return refuse(400, "unsupported_parameter",
                    fmt::format("{}: got \"{}\", but events are not kept", name, clipped(*value)),
                    name);
    }
  }
  std::optional<std::string> body = store.body(tenant, id);
  if (!body) return not_found(id);
  return std::move(*body);
}

ApiResult<std::string> delete_response(ResponsesStore& store, std::string_view tenant,
                                       std::string_view id) {
  if (!store.erase(tenant, id)) return not_found(id);
  JsonWriter json;
  json.begin_object();
  json.key("id").text(id);
  json.key("object").text("response.deleted");
  json.key("deleted").boolean(true);
  return json.end_object().take();
}

ApiResult<std::string> input_items_body(const ResponsesStore& store, std::string_view tenant,
                                        std::string_view id, std::string_view query) {
  ResponsesStore::PageQuery page_query;
  TRY_ASSIGN(page_query.is_ascending, wants_ascending(query));
  TRY_ASSIGN(const std::optional<std::int64_t> limit, query_integer(query, "limit", 1, kPageMax));
  page_query.limit = static_cast<std::size_t>(limit.value_or(kPageDefault));
  TRY_ASSIGN(const std::optional<std::string> after, query_value(query, "after"));
  page_query.after = after.value_or("");
  const std::optional<ResponsesStore::Page> page = store.input_page(tenant, id, page_query);
  if (!page) return not_found(id);
  if (!page->after_found) {
    return refuse(400, "invalid_value",
                  fmt::format("after: got \"{}\", expected the id of an input item",
                              clipped(page_query.after)),
                  "after");
  }
  JsonWriter json;
  json.begin_object();
  json.key("object").text("list");
  json.key("data").begin_array();
  for (const ResponseItem& item : page->items) append_response_item(json, item);
  json.end_array();
  const auto id_or_null = [&json](std::string_view name, const ResponseItem* item) {
    json.key(name);
    if (item) {
      json.text(item->id);
    } else {
      json.null();
    }
  };
  id_or_null("first_id", page->items.empty() ? nullptr : &page->items.front());
  id_or_null("last_id", page->items.empty() ? nullptr : &page->items.back());
  json.key("has_more").boolean(page->has_more);
  return json.end_object().take();
}

}  // namespace reprise
