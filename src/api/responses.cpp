// From requests to prepared generations, and bodies of what is kept.
#include "api/responses.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>

#include "api/bundle.h"
#include "api/field_reader.h"
#include "api/json_writer.h"
#include "api/routes.h"

namespace reprise {
namespace {

constexpr std::int64_t kPageDefault = 20;  // OpenAI's numbers
constexpr std::int64_t kPageMax = 100;

std::unexpected<ApiError> not_found(std::string_view id) {
  return refuse(404, "response_not_found",
                fmt::format("no response \"{}\" is kept: it never was, has been deleted, is too "
                            "old, or had to make room",
                            clipped(id)),
                "response_id");
}

// Puts a conversation together, and counts it: a reference of a few bytes may stand for megabytes,
// so that nothing is copied before it is known to fit.
class Conversation {
 public:
  Conversation(const PrepareContext& context, const ResponsesStore& store)
      : context_(context), store_(store) {}

  // The previous response's, before any other. Errors: 400 previous_response_not_found.
  ApiStatus add_previous(const std::string& id);
  // Kept items in place of references. Errors: 400: an item that is there already, one that is not
  // kept, too many references or bytes.
  ApiStatus add_input(std::vector<ResponseItem> input);

  std::size_t history() const { return history_; }
  std::size_t bytes() const { return bytes_; }
  const std::vector<ResponseItem>& items() const { return items_; }
  std::vector<ResponseItem> take() { return std::move(items_); }

 private:
  ApiStatus count(const std::string& param, std::size_t bytes);
  ApiStatus resolve(ResponseItem& item, const std::string& param);
  ApiStatus add_id(const std::string& id, const std::string& param);

  const PrepareContext& context_;
  const ResponsesStore& store_;
  std::vector<ResponseItem> items_;
  std::unordered_set<std::string> ids_;
  std::size_t bytes_ = 0;
  std::size_t history_ = 0;
};

ApiStatus Conversation::count(const std::string& param, std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ <= store_.conversation_bytes_max()) return {};
  return refuse(400, "invalid_value",
                fmt::format("{}: the conversation takes {} bytes up to here, expected at most {}",
                            param, bytes_, store_.conversation_bytes_max()),
                param);
}

// Lists of items are paged by their ids.
ApiStatus Conversation::add_id(const std::string& id, const std::string& param) {
  if (id.empty() || ids_.insert(id).second) return {};
  return refuse(
      400, "invalid_value",
      fmt::format("{}: duplicate item \"{}\", expected each item of the conversation once", param,
                  clipped(id)),
      param);
}

ApiStatus Conversation::add_previous(const std::string& id) {
  std::optional<std::vector<ResponseItem>> previous = store_.conversation(context_.tenant, id);
  if (!previous) {
    return refuse(400, "previous_response_not_found",
                  fmt::format("previous_response_id: no response \"{}\" is kept: it never was, "
                              "has been deleted, is too old, or had to make room",
                              clipped(id)),
                  "previous_response_id");
  }
  items_ = std::move(*previous);
  history_ = items_.size();
  for (const ResponseItem& item : items_) {
    ids_.insert(item.id);
    bytes_ += item.bytes();
  }
  return count("previous_response_id", 0);
}

ApiStatus Conversation::resolve(ResponseItem& item, const std::string& param) {
  const std::optional<std::size_t> bytes = store_.item_bytes(context_.tenant, item.id);
  if (bytes) TRY(count(param, *bytes));
  std::optional<ResponseItem> kept;
  if (bytes) kept = store_.item(context_.tenant, item.id);
  if (!kept) {
    return refuse(400, "item_not_found",
                  fmt::format("{}: got \"{}\", expected the id of an item of a kept response",
                              param, clipped(item.id)),
                  param);
  }
  item = std::move(*kept);
  return {};
}

ApiStatus Conversation::add_input(std::vector<ResponseItem> input) {
  const auto references = static_cast<std::size_t>(
      std::ranges::count(input, ResponseItem::Kind::reference, &ResponseItem::kind));
  TRY(check_count("input", references, "item_references", 0, context_.limits.item_references_max));
  for (std::size_t index = 0; index < input.size(); index++) {
    ResponseItem& item = input[index];
    const std::string place = fmt::format("input[{}]", index), id_param = place + ".id";
    TRY(add_id(item.id, id_param));
    if (item.kind == ResponseItem::Kind::reference) {
      TRY(resolve(item, id_param));
    } else {
      TRY(count(place, item.bytes()));
    }
    items_.push_back(std::move(item));
  }
  return {};
}

// The request's messages, the previous response's and kept items among them.
ApiStatus add_messages(Conversation& conversation, ResponsesRequest& request) {
  const std::string& previous_id = request.extras.previous_response_id;
  if (!previous_id.empty()) TRY(conversation.add_previous(previous_id));
  TRY(conversation.add_input(std::move(request.input)));
  TRY_ASSIGN(request.chat.messages,
             response_messages(request.extras.instructions.value_or(""), conversation.items(),
                               conversation.history()));
  return {};
}

ApiResult<ConversationClaim> claim(std::size_t bytes, ResponsesStore& store) {
  const std::size_t waiting = store.claimed_bytes();
  std::optional<ConversationClaim> claim = store.claim(bytes);
  if (claim) return std::move(*claim);
  return refuse(429, "queue_full",
                fmt::format("conversations of {} bytes wait for their replies to be kept with "
                            "them, and this one has {}: expected at most {} together; with "
                            "\"store\": false none waits",
                            waiting, bytes, store.waiting_bytes_max()),
                {});
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
                                             ResponsesStore& store) {
  TRY_ASSIGN(ResponsesRequest request, parse_responses_request(body, context.limits));
  Conversation conversation(context, store);
  TRY(add_messages(conversation, request));
  PreparedResponse prepared;
  prepared.plan = plan_of(std::move(request.extras), context.tenant, request.chat);
  // Only what is to be kept waits for the reply.
  if (prepared.plan.extras.store) {
    TRY_ASSIGN(prepared.plan.claim, claim(conversation.bytes(), store));
    prepared.plan.items = conversation.take();
  }
  TRY_ASSIGN(prepared.generation, prepare_chat(context, std::move(request.chat)));
  return prepared;
}

ApiResult<TextAnswer> response_tokens_body(const PrepareContext& context, std::string_view body,
                                           const ResponsesStore& store) {
  TRY_ASSIGN(ResponsesRequest request, parse_responses_request(body, context.limits));
  TRY(check_model(request.chat.fields.model, context.model_alias));
  Conversation conversation(context, store);
  TRY(add_messages(conversation, request));
  TextAnswer answer{.unknown = std::move(request.chat.fields.unknown)};
  TRY_ASSIGN(const std::vector<TokenId> ids,
             chat_tokens(context.bundle->prompts(), std::move(request.chat)));
  JsonWriter json;
  json.begin_object();
  json.key("object").text("response.input_tokens");
  json.key("input_tokens").integer(static_cast<std::int64_t>(ids.size()));
  answer.body = json.end_object().take();
  return answer;
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
