// Events to JSON.
#include "api/responses_events.h"

namespace reprise {
namespace {

using Kind = ResponseItem::Kind;

std::string_view text_of_item(const ResponseItem& item) {
  return item.texts.empty() ? std::string_view() : std::string_view(item.texts.front());
}

}  // namespace

JsonWriter ResponseEvents::begin(std::string_view type) {
  JsonWriter json;
  json.begin_object();
  json.key("type").text(type);
  json.key("sequence_number").integer(next_++);
  return json;
}

void ResponseEvents::send(std::string_view type, JsonWriter& json) {
  json.end_object();
  outlet_->send_event(json.take(), type);
}

void ResponseEvents::response(std::string_view type, std::string object) {
  if (!is_on_) return;
  JsonWriter json = begin(type);
  json.key("response").raw(object);
  object = {};  // megabytes with log probabilities: not twice while it is sent
  send(type, json);
}

void ResponseEvents::whole_item(std::string_view type, std::size_t index,
                                const ResponseItem& item) {
  JsonWriter json = begin(type);
  json.key("output_index").integer(index);
  json.key("item");
  append_response_item(json, item);
  send(type, json);
}

void ResponseEvents::begin_part(JsonWriter& json, std::size_t index,
                                const ResponseItem& item) const {
  json.key("item_id").text(item.id);
  json.key("output_index").integer(index);
  if (item.kind != Kind::function_call) json.key("content_index").integer(0);
}

void ResponseEvents::part(std::string_view type, std::size_t index, const ResponseItem& item) {
  JsonWriter json = begin(type);
  begin_part(json, index, item);
  json.key("part").begin_object();
  if (item.kind == Kind::message) {
    append_output_text(json, item, text_of_item(item));
  } else {
    json.key("type").text("reasoning_text");
    json.key("text").text(text_of_item(item));
  }
  json.end_object();
  send(type, json);
}

void ResponseEvents::item_begins(std::size_t index, const ResponseItem& item) {
  if (!is_on_) return;
  whole_item("response.output_item.added", index, item);
  if (item.kind != Kind::function_call) part("response.content_part.added", index, item);
}

void ResponseEvents::item_grows(std::size_t index, const ResponseItem& item, std::string_view delta,
                                std::string_view logprobs) {
  if (!is_on_) return;
  const std::string_view type = item.kind == Kind::message ? "response.output_text.delta"
                                : item.kind == Kind::reasoning
                                    ? "response.reasoning_text.delta"
                                    : "response.function_call_arguments.delta";
  JsonWriter json = begin(type);
  begin_part(json, index, item);
  json.key("delta").text(delta);
  if (item.kind == Kind::message) json.key("logprobs").begin_array().raw(logprobs).end_array();
  send(type, json);
}

void ResponseEvents::text_done(std::size_t index, const ResponseItem& item) {
  const bool is_message = item.kind == Kind::message;
  const std::string_view type =
      is_message ? "response.output_text.done" : "response.reasoning_text.done";
  JsonWriter json = begin(type);
  begin_part(json, index, item);
  json.key("text").text(text_of_item(item));
  if (is_message) json.key("logprobs").begin_array().raw(item.logprobs).end_array();
  send(type, json);
}

void ResponseEvents::item_ends(std::size_t index, const ResponseItem& item) {
  if (!is_on_) return;
  if (item.kind == Kind::function_call) {
    constexpr std::string_view kType = "response.function_call_arguments.done";
    JsonWriter json = begin(kType);
    begin_part(json, index, item);
    json.key("arguments").text(item.arguments);
    send(kType, json);
  } else {
    text_done(index, item);
    part("response.content_part.done", index, item);
  }
  whole_item("response.output_item.done", index, item);
}

}  // namespace reprise
