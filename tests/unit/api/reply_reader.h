// Reads replies as clients do: a whole one, or the chunks of a stream put together.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api_fixture.h"
#include "base/json.h"

namespace reprise::testing {

struct ReadCall {
  std::string id, name, arguments;
};

struct ReadChoice {
  std::string text, reasoning, finish_reason;
  std::vector<ReadCall> calls;
  JsonArray ids, prompt_ids;
  // By list name: "content" of chat; "tokens", "text_offset" ... of completions.
  std::map<std::string, JsonArray> logprobs;
  int roles = 0, finishes = 0;

  // All but the ids of calls, which are the reply's own.
  std::string summary() const {
    std::string result = text + "|" + reasoning + "|" + finish_reason + "|" + to_json(ids) + "|" +
                         to_json(prompt_ids);
    for (const ReadCall& call : calls) result += "|" + call.name + "(" + call.arguments + ")";
    for (const auto& [name, list] : logprobs) result += "|" + name + to_json(list);
    return result;
  }
};

struct ReadReply {
  std::map<int, ReadChoice> choices;
  int usages = 0, null_usages = 0, progresses = 0;
  JsonValue usage;

  std::string summary() const {
    std::string result;
    for (const auto& [index, choice] : choices) {
      result += std::to_string(index) + ": " + choice.summary() + "\n";
    }
    return result;
  }
  const ReadChoice& first() const { return choices.at(0); }
};

inline void read_call(ReadChoice& choice, const JsonObject& call) {
  const JsonValue* index = call.if_contains("index");
  const std::size_t place = index ? index->to_number<std::size_t>() : choice.calls.size();
  ASSERT_LE(place, choice.calls.size());
  if (place == choice.calls.size()) {
    EXPECT_EQ(call.at("type").as_string(), "function");
    choice.calls.push_back({std::string(call.at("id").as_string()),
                            std::string(call.at("function").at("name").as_string()), ""});
  } else {
    EXPECT_FALSE(call.contains("id")) << "told twice";
  }
  choice.calls[place].arguments +=
      std::string_view(call.at("function").at("arguments").as_string());
}

inline void read_message(ReadChoice& choice, const JsonObject& message) {
  if (message.contains("role")) choice.roles++;
  const JsonValue* content = message.if_contains("content");
  if (content && content->is_string()) choice.text += std::string_view(content->get_string());
  const JsonValue* reasoning = message.if_contains("reasoning_content");
  if (reasoning) choice.reasoning += std::string_view(reasoning->as_string());
  const JsonValue* calls = message.if_contains("tool_calls");
  if (!calls) return;
  for (const JsonValue& call : calls->as_array()) read_call(choice, call.as_object());
}

inline void read_choice(ReadReply& reply, const JsonObject& object) {
  ReadChoice& choice = reply.choices[object.at("index").to_number<int>()];
  if (const JsonValue* text = object.if_contains("text")) {
    choice.text += std::string_view(text->as_string());
  }
  for (const char* holder : {"message", "delta"}) {
    const JsonValue* message = object.if_contains(holder);
    if (message) read_message(choice, message->as_object());
  }
  if (object.at("finish_reason").is_string()) {
    choice.finish_reason = std::string(object.at("finish_reason").get_string());
    choice.finishes++;
  }
  const auto append = [&](const char* name, JsonArray& list) {
    const JsonValue* ids = object.if_contains(name);
    if (!ids) return;
    for (const JsonValue& id : ids->as_array()) list.push_back(id);
  };
  append("token_ids", choice.ids);
  append("prompt_token_ids", choice.prompt_ids);
  if (object.at("logprobs").is_null()) return;
  for (const auto& member : object.at("logprobs").as_object()) {
    if (!member.value().is_array()) continue;
    JsonArray& list = choice.logprobs[std::string(member.key())];
    for (const JsonValue& item : member.value().get_array()) list.push_back(item);
  }
}

inline void read_object(ReadReply& reply, const JsonValue& object) {
  for (const JsonValue& choice : object.at("choices").as_array()) {
    read_choice(reply, choice.as_object());
  }
  if (object.as_object().contains("prompt_progress")) reply.progresses++;
  const JsonValue* usage = object.as_object().if_contains("usage");
  if (!usage) return;
  if (usage->is_null()) {
    reply.null_usages++;
  } else {
    reply.usages++;
    reply.usage = *usage;
  }
}

// The data of the events, in order.
inline std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    EXPECT_EQ(body.substr(at, 6), "data: ");
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

// Also checks the form: ids all alike, one role and one end a choice, [DONE] at the end.
inline ReadReply read_stream(const Reply& reply) {
  EXPECT_TRUE(reply.head.streamed);
  EXPECT_EQ(reply.head.content_type, "text/event-stream; charset=utf-8");
  ReadReply read;
  std::vector<std::string> events = events_of(reply.body);
  EXPECT_FALSE(events.empty());
  if (events.empty()) return read;
  EXPECT_EQ(events.back(), "[DONE]");
  events.pop_back();
  std::string id;
  for (const std::string& event : events) {
    const Result<JsonValue> object = parse_json(without_nul(event));
    EXPECT_TRUE(object) << event;
    if (!object || object->as_object().contains("error")) {
      ADD_FAILURE() << event;
      return read;
    }
    if (id.empty()) id = std::string(object->at("id").as_string());
    EXPECT_EQ(object->at("id").as_string(), id);
    read_object(read, *object);
  }
  for (const auto& [index, choice] : read.choices) {
    EXPECT_EQ(choice.finishes, 1) << index;
    EXPECT_LE(choice.roles, 1) << index;
  }
  return read;
}

inline ReadReply read_whole(const Reply& reply) {
  EXPECT_EQ(reply.head.status, 200) << reply.body;
  EXPECT_FALSE(reply.head.streamed);
  ReadReply read;
  if (reply.head.status == 200) read_object(read, reply.json());
  return read;
}

}  // namespace reprise::testing
