// Requests for the parsers: made from a member or a message, and what is expected of bad ones.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api/openai.h"

namespace reprise::testing {

inline ChatRequest chat(std::string_view body) {
  ApiResult<ChatRequest> request = parse_chat_request(body);
  EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
  return request ? std::move(*request) : ChatRequest();
}

inline CompletionRequest completion(std::string_view body) {
  ApiResult<CompletionRequest> request = parse_completion_request(body);
  EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
  return request ? std::move(*request) : CompletionRequest();
}

inline CompletionRequest llama(std::string_view body) {
  ApiResult<CompletionRequest> request = parse_llama_completion_request(body);
  EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
  return request ? std::move(*request) : CompletionRequest();
}

// Requests with one more member.
inline std::string chat_with(const std::string& member) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}],)" + member + "}";
}
inline std::string completion_with(const std::string& member) {
  return R"({"model":"m","prompt":"hi",)" + member + "}";
}
inline std::string message_with(const std::string& message) {
  return R"({"model":"m","messages":[)" + message + "]}";
}

struct BadRequest {
  std::string body;
  const char* code;
  std::string param;
};

inline const char* const kMissing = "missing_required_parameter";
inline const char* const kType = "invalid_type";
inline const char* const kValue = "invalid_value";
inline const char* const kUnsupported = "unsupported_parameter";

inline void expect_refused(const ApiError& error, const BadRequest& bad) {
  const std::string body = bad.body.substr(0, 300);
  EXPECT_EQ(error.status, 400) << body;
  EXPECT_EQ(error.code, bad.code) << body << ": " << error.message;
  EXPECT_EQ(error.param, bad.param) << body << ": " << error.message;
  EXPECT_FALSE(error.message.empty());
  EXPECT_LT(error.message.size(), 400u) << error.message;
  for (const char letter : error.message + error.param) {
    EXPECT_GE(static_cast<unsigned char>(letter), 0x20) << body;
  }
}

template <class Parse>
void expect_all_refused(Parse parse, const std::vector<BadRequest>& table) {
  for (const BadRequest& bad : table) {
    const auto request = parse(bad.body, Limits());
    ASSERT_FALSE(request) << bad.body.substr(0, 300);
    expect_refused(request.error(), bad);
  }
}

inline void expect_chat_refused(const std::vector<BadRequest>& table) {
  expect_all_refused(parse_chat_request, table);
}
inline void expect_completion_refused(const std::vector<BadRequest>& table) {
  expect_all_refused(parse_completion_request, table);
}
inline void expect_llama_refused(const std::vector<BadRequest>& table) {
  expect_all_refused(parse_llama_completion_request, table);
}

}  // namespace reprise::testing
