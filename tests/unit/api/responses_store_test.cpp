// What is kept of responses: for whom, how much, and how long.
#include "api/responses_store.h"

#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "api/responses.h"
#include "base/json.h"

namespace reprise {
namespace {

std::int64_t now_ms = 0;
std::int64_t test_clock() {
  return now_ms;
}

Limits limits_of(std::size_t responses, std::size_t bytes) {
  Limits limits;
  limits.stored_responses_max = responses;
  limits.stored_response_bytes_max = bytes;
  limits.stored_response_ms_max = 1000;
  return limits;
}

StoredResponse response_of(const std::string& id, std::size_t inputs = 1,
                           std::size_t body_bytes = 10) {
  StoredResponse response{id, std::string(body_bytes, 'b'), {}, inputs};
  for (std::size_t index = 0; index < inputs; index++) {
    ResponseItem item;
    item.id = fmt::format("{}i{}", id, index);
    item.role = "user";
    item.texts = {fmt::format("text {}", index)};
    response.items.push_back(std::move(item));
  }
  ResponseItem reply;
  reply.id = id + "o";
  reply.role = "assistant";
  reply.texts = {"reply"};
  response.items.push_back(std::move(reply));
  return response;
}

class ResponsesStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { now_ms = 0; }
};

TEST_F(ResponsesStoreTest, KeepsBodyConversationAndItems) {
  ResponsesStore store(limits_of(10, 1 << 20), test_clock);
  store.put("a", response_of("r1", 2));
  EXPECT_EQ(store.body("a", "r1"), std::string(10, 'b'));
  ASSERT_TRUE(store.conversation("a", "r1"));
  EXPECT_EQ(store.conversation("a", "r1")->size(), 3U);
  ASSERT_TRUE(store.item("a", "r1o"));
  EXPECT_EQ(store.item("a", "r1o")->texts.front(), "reply");
  EXPECT_FALSE(store.item("a", "r1i0")) << "items of replies only";
  EXPECT_FALSE(store.body("a", "r2"));
}

TEST_F(ResponsesStoreTest, AnotherKeySeesNothing) {
  ResponsesStore store(limits_of(10, 1 << 20), test_clock);
  store.put("a", response_of("r1"));
  EXPECT_FALSE(store.body("b", "r1"));
  EXPECT_FALSE(store.conversation("b", "r1"));
  EXPECT_FALSE(store.item("b", "r1o"));
  EXPECT_FALSE(store.input_page("b", "r1", {}));
  EXPECT_FALSE(store.erase("b", "r1"));
  EXPECT_TRUE(store.body("a", "r1"));
}

TEST_F(ResponsesStoreTest, WhatIsErasedIsGoneWithItsBytes) {
  ResponsesStore store(limits_of(10, 1 << 20), test_clock);
  store.put("a", response_of("r1"));
  EXPECT_GT(store.bytes(), 0U);
  EXPECT_TRUE(store.erase("a", "r1"));
  EXPECT_FALSE(store.erase("a", "r1"));
  EXPECT_FALSE(store.body("a", "r1"));
  EXPECT_FALSE(store.item("a", "r1o"));
  EXPECT_EQ(store.bytes(), 0U);
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(ResponsesStoreTest, TooManyLoseTheOldestOfWhoHasMost) {
  ResponsesStore store(limits_of(4, 1 << 20), test_clock);
  store.put("b", response_of("b1"));
  for (const char* id : {"a1", "a2", "a3", "a4", "a5"}) store.put("a", response_of(id));
  EXPECT_EQ(store.size(), 4U);
  EXPECT_TRUE(store.body("b", "b1")) << "the oldest of all, but its key has only one";
  EXPECT_FALSE(store.body("a", "a1"));
  EXPECT_FALSE(store.body("a", "a2"));
  EXPECT_TRUE(store.body("a", "a3"));
  EXPECT_TRUE(store.body("a", "a5"));
}

TEST_F(ResponsesStoreTest, TooManyBytesLoseTheOldestOfWhoHasMost) {
  const std::size_t large = response_of("a1", 1, 4000).bytes();
  ResponsesStore store(limits_of(100, large * 3), test_clock);
  store.put("b", response_of("b1"));
  store.put("a", response_of("a1", 1, 4000));
  store.put("a", response_of("a2", 1, 4000));
  EXPECT_EQ(store.size(), 3U);
  store.put("b", response_of("b2", 1, 4000));
  EXPECT_LE(store.bytes(), large * 3);
  EXPECT_FALSE(store.body("a", "a1"));
  EXPECT_TRUE(store.body("a", "a2"));
  EXPECT_TRUE(store.body("b", "b1"));
  EXPECT_TRUE(store.body("b", "b2"));
  store.put("b", response_of("huge", 1, large * 3));
  EXPECT_FALSE(store.body("b", "huge")) << "larger than all room: nothing else goes for it";
  EXPECT_TRUE(store.body("b", "b1"));
}

TEST_F(ResponsesStoreTest, WhatIsOldIsGone) {
  ResponsesStore store(limits_of(10, 1 << 20), test_clock);
  store.put("a", response_of("r1"));
  now_ms = 999;
  EXPECT_TRUE(store.body("a", "r1"));
  now_ms = 1000;
  EXPECT_FALSE(store.body("a", "r1"));
  EXPECT_FALSE(store.item("a", "r1o"));
  store.put("b", response_of("r2"));
  EXPECT_EQ(store.size(), 1U) << "its memory is given back";
}

TEST_F(ResponsesStoreTest, ListsInputItemsByPages) {
  ResponsesStore store(limits_of(10, 1 << 20), test_clock);
  store.put("a", response_of("r", 5));
  const auto ids = [&](std::string_view query) {
    const ApiResult<std::string> body = input_items_body(store, "a", "r", query);
    if (!body) return body.error().param;
    const JsonValue json = parse_json(*body).value();
    std::string text = json.at("has_more").as_bool() ? "more:" : "";
    for (const JsonValue& item : json.at("data").as_array()) {
      text += to_json(item.at("id")).substr(3, 1) + " ";
    }
    return text;
  };
  EXPECT_EQ(ids(""), "4 3 2 1 0 ") << "the newest first, the reply not among them";
  EXPECT_EQ(ids("order=asc&limit=2"), "more:0 1 ");
  EXPECT_EQ(ids("order=asc&limit=2&after=ri1"), "more:2 3 ");
  EXPECT_EQ(ids("order=asc&limit=2&after=ri3"), "4 ");
  EXPECT_EQ(ids("order=desc&after=ri1"), "0 ");
  EXPECT_EQ(ids("order=desc&after=ri0"), "");
  EXPECT_EQ(ids("order=up"), "order");
  EXPECT_EQ(ids("limit=0"), "limit");
  EXPECT_EQ(ids("limit=101"), "limit");
  EXPECT_EQ(ids("after=nobody"), "after");
  EXPECT_EQ(input_items_body(store, "b", "r", "").error().status, 404);
}

TEST_F(ResponsesStoreTest, BodiesForTheDesk) {
  ResponsesStore store(limits_of(10, 1 << 20), test_clock);
  store.put("a", response_of("r1"));
  EXPECT_EQ(response_body(store, "a", "r1", "").value(), std::string(10, 'b'));
  EXPECT_EQ(response_body(store, "a", "r1", "stream=true").error().param, "stream");
  EXPECT_EQ(response_body(store, "b", "r1", "").error().status, 404);
  EXPECT_EQ(response_body(store, "b", "r1", "").error().code, "response_not_found");
  EXPECT_EQ(delete_response(store, "b", "r1").error().status, 404);
  EXPECT_EQ(delete_response(store, "a", "r1").value(),
            R"({"id":"r1","object":"response.deleted","deleted":true})");
  EXPECT_EQ(delete_response(store, "a", "r1").error().status, 404);
}

TEST_F(ResponsesStoreTest, ManyThreadsAtOnce) {
  ResponsesStore store(limits_of(50, 1 << 20), test_clock);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; thread++) {
    threads.emplace_back([&store, thread] {
      const std::string tenant = fmt::format("t{}", thread % 2);
      for (int turn = 0; turn < 200; turn++) {
        const std::string id = fmt::format("r{}-{}", thread, turn);
        store.put(tenant, response_of(id));
        store.conversation(tenant, fmt::format("r{}-{}", thread, turn / 2));
        store.input_page(tenant, id, {});
        if (turn % 3 == 0) store.erase(tenant, id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(store.size(), 50U);
  EXPECT_GT(store.size(), 0U);
}

}  // namespace
}  // namespace reprise
