// Responses, whole and streamed, from parts fed by hand.
#include <functional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "api/responses.h"
#include "api_fixture.h"

namespace reprise::testing {
namespace {

using Part = ReplyPart::Kind;

ChoiceDelta text(const std::string& piece) {
  return {.parts = {{Part::content, piece}}, .logprobs = {}, .token_ids = {}};
}
ChoiceDelta thoughts(const std::string& piece) {
  return {.parts = {{Part::reasoning, piece}}, .logprobs = {}, .token_ids = {}};
}
ChoiceDelta call(const std::string& name) {
  return {.parts = {{Part::tool_name, name}}, .logprobs = {}, .token_ids = {}};
}
ChoiceDelta arguments(const std::string& piece) {
  return {.parts = {{Part::tool_arguments, piece}}, .logprobs = {}, .token_ids = {}};
}

Usage usage_of() {
  Usage usage;
  usage.prompt_tokens = 10;
  usage.cached_tokens = 7;
  usage.completion_tokens = 5;
  return usage;
}

struct StreamEvent {
  std::string name;
  JsonObject data;
};

std::vector<StreamEvent> events_of(const std::string& body) {
  std::vector<StreamEvent> events;
  std::size_t place = 0;
  while (place < body.size()) {
    const std::size_t end = body.find("\n\n", place);
    const std::string event = body.substr(place, end - place);
    const std::size_t line = event.find("\ndata: ");
    EXPECT_TRUE(event.starts_with("event: ")) << event;
    EXPECT_NE(line, std::string::npos) << event;
    StreamEvent parsed;
    parsed.name = event.substr(7, line - 7);
    parsed.data = parse_json(event.substr(line + 7)).value().as_object();
    EXPECT_EQ(parsed.data.at("type").as_string(), parsed.name);
    EXPECT_EQ(parsed.data.at("sequence_number"), static_cast<std::int64_t>(events.size()));
    events.push_back(std::move(parsed));
    place = end + 2;
  }
  return events;
}

// "created in_progress ..." without the common beginning; deltas with their text.
std::string names_of(const std::vector<StreamEvent>& events) {
  std::string names;
  for (const StreamEvent& event : events) {
    names += event.name.substr(std::string_view("response.").size());
    if (const JsonValue* delta = event.data.if_contains("delta")) {
      names += fmt::format("={}", std::string_view(delta->as_string()));
    }
    names += ' ';
  }
  return names;
}

// The output as a client puts it together from the events alone.
JsonArray assembled(const std::vector<StreamEvent>& events) {
  JsonArray output;
  for (const StreamEvent& event : events) {
    if (!event.data.contains("output_index")) continue;
    const auto index = static_cast<std::size_t>(event.data.at("output_index").as_int64());
    if (event.name == "response.output_item.added") {
      EXPECT_EQ(index, output.size());
      output.push_back(event.data.at("item"));
      continue;
    }
    JsonObject& item = output.at(index).as_object();
    if (event.name == "response.output_item.done") {
      JsonObject grown = item;
      grown["status"] = event.data.at("item").at("status");
      EXPECT_EQ(grown, event.data.at("item").as_object()) << "the deltas make the item";
      item = event.data.at("item").as_object();
      continue;
    }
    EXPECT_EQ(event.data.at("item_id"), item.at("id"));
    if (event.name == "response.content_part.added") {
      item.at("content").as_array().push_back(event.data.at("part"));
      continue;
    }
    const JsonValue* delta = event.data.if_contains("delta");
    if (!delta) continue;
    if (event.name == "response.function_call_arguments.delta") {
      item["arguments"].as_string() += std::string_view(delta->as_string());
      continue;
    }
    JsonObject& part = item.at("content").at(0).as_object();
    part["text"].as_string() += std::string_view(delta->as_string());
    if (const JsonValue* logprobs = event.data.if_contains("logprobs")) {
      for (const JsonValue& each : logprobs->as_array()) {
        part.at("logprobs").as_array().push_back(each);
      }
    }
  }
  return output;
}

class ResponsesWriterTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    metrics = std::make_unique<Metrics>(*engine);
    plan.tenant = "tenant";
    ResponseItem question;
    question.role = "user";
    question.texts = {"question"};
    plan.items = {question};
  }

  using Feed = std::function<void(ReplyWriter&)>;

  Reply run(const Feed& feed, bool stream) {
    Listener listener;
    ResponsePlan own{.extras = plan.extras,
                     .tenant = plan.tenant,
                     .items = plan.items,
                     .claim = {},
                     .stream = stream,
                     .max_output_tokens = {},
                     .top_logprobs = plan.top_logprobs,
                     .reasoning_effort = {}};
    const std::unique_ptr<ReplyWriter> writer = make_response_writer(
        std::move(own), {"0a", "model", 1700000000}, bundle->tokenizer(), store,
        ReplyOutlet(listener.channel, {}, *metrics, Endpoint::responses));
    feed(*writer);
    EXPECT_TRUE(listener.read_all());
    return std::move(listener.reply);
  }

  // Ends a reply of one choice.
  static void finish(ReplyWriter& writer, ChoiceEnd::Reason reason, Position reasoning = 0) {
    ChoiceEnd end;
    end.reason = reason;
    end.usage = usage_of();
    end.reasoning_tokens = reasoning;
    writer.choice_end(0, end);
    writer.end(end.usage);
  }

  // The same feed, whole and streamed, says the same; returns the names of the events.
  std::string check_both(const Feed& feed) {
    const Reply streamed = run(feed, true);
    const Reply whole = run(feed, false);
    const std::vector<StreamEvent> events = events_of(streamed.body);
    JsonObject last = events.back().data.at("response").as_object();
    JsonObject object = whole.json().as_object();
    last["completed_at"] = object["completed_at"] = 0;
    EXPECT_EQ(last, object);
    EXPECT_EQ(assembled(events), object.at("output").as_array());
    EXPECT_EQ(streamed.header("x-reprise-cache"), "hit; matched=7");
    EXPECT_EQ(whole.header("x-reprise-cache"), "hit; matched=7");
    EXPECT_EQ(streamed.head.content_type, "text/event-stream; charset=utf-8");
    return names_of(events);
  }

  ResponsesStore store;
  ResponsePlan plan;
  std::unique_ptr<Metrics> metrics;
};

TEST_F(ResponsesWriterTest, WritesTheWholeObject) {
  const Feed feed = [](ReplyWriter& writer) {
    writer.prompt_done(0, usage_of());
    writer.delta(0, text("Hel"));
    writer.delta(0, text("lo"));
    finish(writer, ChoiceEnd::Reason::stop);
  };
  std::string body = run(feed, false).body;
  const std::size_t time = body.find("\"completed_at\":") + 15;
  body.replace(time, body.find(',', time) - time, "T");
  EXPECT_EQ(
      body,
      R"({"id":"resp_0a","object":"response","created_at":1700000000,"status":"completed",)"
      R"("background":false,"completed_at":T,"error":null,"incomplete_details":null,)"
      R"("instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"model",)"
      R"("output":[{"id":"msg_0a0000","type":"message","role":"assistant",)"
      R"("content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hello"}],)"
      R"("status":"completed"}],"parallel_tool_calls":true,"previous_response_id":null,)"
      R"("prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},)"
      R"("safety_identifier":null,"service_tier":"default","store":true,"temperature":1.0,)"
      R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,)"
      R"("top_p":1.0,"truncation":"disabled","usage":{"input_tokens":10,)"
      R"("input_tokens_details":{"cached_tokens":7,"cache_write_tokens":3},"output_tokens":5,)"
      R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":15},"user":null,)"
      R"("metadata":{}})");
}

TEST_F(ResponsesWriterTest, StreamsText) {
  EXPECT_EQ(check_both([](ReplyWriter& writer) {
              writer.prompt_done(0, usage_of());
              writer.delta(0, {});
              writer.delta(0, text("Hel"));
              writer.delta(0, text("lo"));
              finish(writer, ChoiceEnd::Reason::stop);
            }),
            "created in_progress output_item.added content_part.added output_text.delta=Hel "
            "output_text.delta=lo output_text.done content_part.done output_item.done completed ");
}

TEST_F(ResponsesWriterTest, StreamsThoughtsThenText) {
  EXPECT_EQ(check_both([](ReplyWriter& writer) {
              writer.prompt_done(0, usage_of());
              writer.delta(0, thoughts("hm"));
              writer.delta(0, {.parts = {{Part::reasoning, "."}, {Part::content, "A"}},
                               .logprobs = {},
                               .token_ids = {}});
              finish(writer, ChoiceEnd::Reason::stop, 2);
            }),
            "created in_progress output_item.added content_part.added reasoning_text.delta=hm "
            "reasoning_text.delta=. reasoning_text.done content_part.done output_item.done "
            "output_item.added content_part.added output_text.delta=A output_text.done "
            "content_part.done output_item.done completed ");
}

// The model knows a function of a namespace by one name, the client by two.
TEST_F(ResponsesWriterTest, ACallSaysTheNamespaceOfItsFunction) {
  plan.extras.tools.namespaced = {{"n__f", "n", "f"}};
  const Feed feed = [](ReplyWriter& writer) {
    writer.prompt_done(0, usage_of());
    writer.delta(0, {.parts = {{Part::tool_name, "n__f"},
                               {Part::tool_arguments, "{}"},
                               {Part::tool_name, "f"},
                               {Part::tool_arguments, "{}"}},
                     .logprobs = {},
                     .token_ids = {}});
    finish(writer, ChoiceEnd::Reason::tool_calls);
  };
  check_both(feed);
  EXPECT_EQ(to_json(run(feed, false).json().at("output")),
            R"([{"id":"fc_0a0000","type":"function_call","call_id":"call_0a0000","namespace":"n",)"
            R"("name":"f","arguments":"{}","status":"completed"},)"
            R"({"id":"fc_0a0001","type":"function_call","call_id":"call_0a0001","name":"f",)"
            R"("arguments":"{}","status":"completed"}])");
  // What is kept renders as the model wrote it.
  const auto kept = store.conversation("tenant", "resp_0a");
  ASSERT_TRUE(kept);
  const auto messages = response_messages("", *kept, kept->size());
  ASSERT_TRUE(messages);
  EXPECT_EQ(messages->back().tool_calls.at(0).name, "n__f");
  EXPECT_EQ(messages->back().tool_calls.at(1).name, "f");
}

TEST_F(ResponsesWriterTest, StreamsParallelCalls) {
  const Feed feed = [](ReplyWriter& writer) {
    writer.prompt_done(0, usage_of());
    writer.delta(0, text("T"));
    writer.delta(0, call("f"));
    writer.delta(0, arguments("{\"a\":"));
    writer.delta(0, {.parts = {{Part::tool_arguments, "1}"},
                               {Part::tool_name, "g"},
                               {Part::tool_arguments, "{}"}},
                     .logprobs = {},
                     .token_ids = {}});
    finish(writer, ChoiceEnd::Reason::tool_calls);
  };
  EXPECT_EQ(check_both(feed),
            "created in_progress output_item.added content_part.added output_text.delta=T "
            "output_text.done content_part.done output_item.done output_item.added "
            "function_call_arguments.delta={\"a\": function_call_arguments.delta=1} "
            "function_call_arguments.done output_item.done output_item.added "
            "function_call_arguments.delta={} function_call_arguments.done output_item.done "
            "completed ");
  const JsonValue object = run(feed, false).json();
  EXPECT_EQ(to_json(object.at("output").at(1)),
            R"({"id":"fc_0a0001","type":"function_call","call_id":"call_0a0001","name":"f",)"
            R"("arguments":"{\"a\":1}","status":"completed"})");
  EXPECT_EQ(object.at("output").at(2).at("call_id").as_string(), "call_0a0002");
}

TEST_F(ResponsesWriterTest, GoldenEvents) {
  const Reply reply = run(
      [](ReplyWriter& writer) {
        writer.prompt_done(0, usage_of());
        writer.delta(0, thoughts("r"));
        writer.delta(0, text("t"));
        finish(writer, ChoiceEnd::Reason::stop);
      },
      true);
  const std::size_t begin = reply.body.find("event: response.output_item.added");
  const std::size_t end = reply.body.find("event: response.completed");
  EXPECT_EQ(
      reply.body.substr(begin, end - begin),
      "event: response.output_item.added\n"
      R"(data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,)"
      R"("item":{"id":"rs_0a0000","type":"reasoning","summary":[],"content":[],)"
      R"("status":"in_progress"}})"
      "\n\nevent: response.content_part.added\n"
      R"(data: {"type":"response.content_part.added","sequence_number":3,"item_id":"rs_0a0000",)"
      R"("output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":""}})"
      "\n\nevent: response.reasoning_text.delta\n"
      R"(data: {"type":"response.reasoning_text.delta","sequence_number":4,)"
      R"("item_id":"rs_0a0000","output_index":0,"content_index":0,"delta":"r"})"
      "\n\nevent: response.reasoning_text.done\n"
      R"(data: {"type":"response.reasoning_text.done","sequence_number":5,)"
      R"("item_id":"rs_0a0000","output_index":0,"content_index":0,"text":"r"})"
      "\n\nevent: response.content_part.done\n"
      R"(data: {"type":"response.content_part.done","sequence_number":6,"item_id":"rs_0a0000",)"
      R"("output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":"r"}})"
      "\n\nevent: response.output_item.done\n"
      R"(data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,)"
      R"("item":{"id":"rs_0a0000","type":"reasoning","summary":[],)"
      R"("content":[{"type":"reasoning_text","text":"r"}],"status":"completed"}})"
      "\n\nevent: response.output_item.added\n"
      R"(data: {"type":"response.output_item.added","sequence_number":8,"output_index":1,)"
      R"("item":{"id":"msg_0a0001","type":"message","role":"assistant","content":[],)"
      R"("status":"in_progress"}})"
      "\n\nevent: response.content_part.added\n"
      R"(data: {"type":"response.content_part.added","sequence_number":9,"item_id":"msg_0a0001",)"
      R"("output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],)"
      R"("logprobs":[],"text":""}})"
      "\n\nevent: response.output_text.delta\n"
      R"(data: {"type":"response.output_text.delta","sequence_number":10,)"
      R"("item_id":"msg_0a0001","output_index":1,"content_index":0,"delta":"t","logprobs":[]})"
      "\n\nevent: response.output_text.done\n"
      R"(data: {"type":"response.output_text.done","sequence_number":11,)"
      R"("item_id":"msg_0a0001","output_index":1,"content_index":0,"text":"t","logprobs":[]})"
      "\n\nevent: response.content_part.done\n"
      R"(data: {"type":"response.content_part.done","sequence_number":12,)"
      R"("item_id":"msg_0a0001","output_index":1,"content_index":0,"part":)"
      R"({"type":"output_text","annotations":[],"logprobs":[],"text":"t"}})"
      "\n\nevent: response.output_item.done\n"
      R"(data: {"type":"response.output_item.done","sequence_number":13,"output_index":1,)"
      R"("item":{"id":"msg_0a0001","type":"message","role":"assistant",)"
      R"("content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"t"}],)"
      R"("status":"completed"}})"
      "\n\n");
}

TEST_F(ResponsesWriterTest, WhatIsCutOffIsIncomplete) {
  const Feed feed = [](ReplyWriter& writer) {
    writer.prompt_done(0, usage_of());
    writer.delta(0, text("T"));
    writer.delta(0, call("f"));
    writer.delta(0, arguments("{\"a\""));
    finish(writer, ChoiceEnd::Reason::length);
  };
  const std::string names = check_both(feed);
  EXPECT_TRUE(names.ends_with("output_item.done incomplete ")) << names;
  const JsonValue object = run(feed, false).json();
  EXPECT_EQ(object.at("status").as_string(), "incomplete");
  EXPECT_TRUE(object.at("completed_at").is_null());
  EXPECT_EQ(object.at("incomplete_details").at("reason").as_string(), "max_output_tokens");
  EXPECT_EQ(object.at("output").at(0).at("status").as_string(), "completed");
  EXPECT_EQ(object.at("output").at(1).at("status").as_string(), "incomplete");
  EXPECT_EQ(object.at("output").at(1).at("arguments").as_string(), "{\"a\"");
}

TEST_F(ResponsesWriterTest, AnEmptyReplyIsAnEmptyMessage) {
  EXPECT_EQ(check_both([](ReplyWriter& writer) {
              writer.prompt_done(0, usage_of());
              finish(writer, ChoiceEnd::Reason::stop);
            }),
            "created in_progress output_item.added content_part.added output_text.done "
            "content_part.done output_item.done completed ");
}

TEST_F(ResponsesWriterTest, LogprobsAreTheTexts) {
  plan.top_logprobs = 1;
  const auto with_token = [](ChoiceDelta delta, TokenId id) {
    delta.logprobs = {{id, -0.5F, {{id, -0.5F}}}};
    return delta;
  };
  const Feed feed = [&](ReplyWriter& writer) {
    writer.prompt_done(0, usage_of());
    writer.delta(0, with_token(thoughts("r"), 10));
    writer.delta(0, with_token(text("a"), 11));
    writer.delta(0, with_token({}, 12));
    writer.delta(0, with_token(text("b"), 13));
    writer.delta(0, with_token({}, 14));
    finish(writer, ChoiceEnd::Reason::length);
  };
  check_both(feed);
  const JsonArray logprobs =
      run(feed, false).json().at("output").at(1).at("content").at(0).at("logprobs").as_array();
  ASSERT_EQ(logprobs.size(), 4U);
  EXPECT_EQ(logprobs[0].at("logprob").as_double(), -0.5);
  EXPECT_EQ(logprobs[0].at("top_logprobs").as_array().size(), 1U);
  EXPECT_TRUE(logprobs[0].at("bytes").is_array());
  // They are in the kept body; to go on with the conversation nobody needs them.
  EXPECT_NE(store.body("tenant", "resp_0a").value_or("").find("top_logprobs"), std::string::npos);
  const std::vector<ResponseItem> items = store.conversation("tenant", "resp_0a").value();
  for (const ResponseItem& item : items) EXPECT_EQ(item.logprobs, "");
  ASSERT_TRUE(store.item("tenant", "msg_0a0001"));
  EXPECT_LT(*store.item_bytes("tenant", "msg_0a0001"), 1000U);
}

TEST_F(ResponsesWriterTest, IsKeptBeforeTheClientKnowsOfTheEnd) {
  const Feed feed = [](ReplyWriter& writer) {
    writer.prompt_done(0, usage_of());
    writer.delta(0, thoughts("r"));
    writer.delta(0, text("t"));
    finish(writer, ChoiceEnd::Reason::stop);
  };
  const Reply reply = run(feed, false);
  EXPECT_EQ(store.body("tenant", "resp_0a"), reply.body);
  EXPECT_FALSE(store.body("other", "resp_0a"));
  const std::vector<ResponseItem> items = store.conversation("tenant", "resp_0a").value();
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[0].id, "msg_0ai0000");
  EXPECT_EQ(items[2].id, "msg_0a0001");
  const auto messages = response_messages("", items, items.size()).value();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[1].reasoning, "r");
  EXPECT_EQ(messages[1].content, "t");
}

TEST_F(ResponsesWriterTest, IsNotKeptWhenNotWanted) {
  plan.extras.store = false;
  const Reply reply =
      run([](ReplyWriter& writer) { finish(writer, ChoiceEnd::Reason::stop); }, false);
  EXPECT_FALSE(reply.json().at("store").as_bool());
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(ResponsesWriterTest, FailsHonestlyBeforeTheHead) {
  for (const bool stream : {false, true}) {
    const Reply reply = run(
        [](ReplyWriter& writer) {
          writer.prompt_done(0, usage_of());
          writer.fail({503, "overloaded", "too much"});
        },
        stream);
    EXPECT_EQ(reply.head.status, 503);
    EXPECT_EQ(reply.error_code(), "overloaded");
    EXPECT_EQ(store.size(), 0U);
  }
}

TEST_F(ResponsesWriterTest, FailsInsideAStreamByAnEvent) {
  const Reply reply = run(
      [](ReplyWriter& writer) {
        writer.prompt_done(0, usage_of());
        writer.delta(0, text("T"));
        writer.fail({504, "timeout", "too late"});
      },
      true);
  const std::vector<StreamEvent> events = events_of(reply.body);
  EXPECT_EQ(names_of(events),
            "created in_progress output_item.added content_part.added "
            "output_text.delta=T failed ");
  const JsonObject& response = events.back().data.at("response").as_object();
  EXPECT_EQ(response.at("status"), "failed");
  EXPECT_EQ(to_json(response.at("error")), R"({"code":"server_error","message":"too late"})");
  EXPECT_TRUE(response.at("usage").is_null());
  EXPECT_EQ(store.size(), 0U);
}

// Of what a grammar ran into: whose fault it is, and which field's.
TEST_F(ResponsesWriterTest, AFailedResponseNamesTheField) {
  const auto error_of = [&](const ApiError& error) {
    const Reply reply = run(
        [&](ReplyWriter& writer) {
          writer.prompt_done(0, usage_of());
          writer.delta(0, text("T"));
          writer.fail(error);
        },
        true);
    return to_json(events_of(reply.body).back().data.at("response").at("error"));
  };
  EXPECT_EQ(error_of({400, "invalid_value", "tools: too large", "tools"}),
            R"({"code":"invalid_prompt","message":"tools: too large"})");
  EXPECT_EQ(error_of({400, "invalid_value", "too large", "text.format.schema"}),
            R"({"code":"invalid_prompt","message":"text.format.schema: too large"})");
}

}  // namespace
}  // namespace reprise::testing
