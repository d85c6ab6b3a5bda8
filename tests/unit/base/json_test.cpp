// JSON: what is refused and where, and numbers that keep their bits.
#include "base/json.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace reprise {
namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  const Result<JsonValue> value = parse_json(text, limits);
  if (value) return "";
  EXPECT_EQ(value.error().code, Errc::invalid_argument);
  return value.error().message;
}

double number_of(const std::string& text) {
  const Result<JsonValue> value = parse_json(text);
  EXPECT_TRUE(value) << text;
  if (!value) return std::nan("");
  if (value->is_int64()) return static_cast<double>(value->get_int64());
  if (value->is_uint64()) return static_cast<double>(value->get_uint64());
  return value->get_double();
}

TEST(Json, RoundTrip) {
  const std::string text =
      R"({"a":[1,-2,18446744073709551615,0.5,true,false,null],"b":{"c":"é😀\"\\\n"},"":{},"d":[]})";
  const Result<JsonValue> value = parse_json(text);
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(to_json(*value), text);
}

// What people often write is told by name, with its byte.
TEST(Json, TroubleIsNamed) {
  const auto expect = [](std::string_view text, std::string_view message) {
    EXPECT_EQ(error_of(text), fmt::format("invalid JSON at byte {}", message)) << text;
  };
  expect(R"({"a":1,})", "7: a comma before a closing bracket");
  expect("[1,]", "3: a comma before a closing bracket");
  expect("{'a':1}", "1: a single quote, expected double quotes");
  expect("{a:1}", "1: expected a name in double quotes");
  expect(R"({"a":NaN})", "5: a word other than true, false and null");
  expect(R"([true,True])", "6: a word other than true, false and null");
  expect("hello", "0: a word other than true, false and null");
  expect("<html>", "0: expected a value");
  expect("{\"a\":\"x\ny\"}", "7: a control character in a string, expected an escape such as \\n");
  expect(R"({"a":01})", "6: a number in a form that JSON does not have");
  expect(R"({"a":.5})", "5: a number in a form that JSON does not have");
  expect(R"({"a":1e})", "7: a number in a form that JSON does not have");
  expect(R"({"a" 1})", "5: expected a colon behind the name");
  expect("[1 2]", "3: expected a comma or a closing bracket");
  expect(R"([true"x"])", "5: expected a comma or a closing bracket");
  expect(R"({"a":1 "b":2})", "7: expected a comma or a closing bracket");
  expect(R"(["\q"])", "3: an unknown escape in a string");
  expect("[\"\xff\"]", "2: bytes that are not UTF-8");
  expect("\xef\xbb\xbf{}", "0: a byte order mark");
  expect("[1 // one\n]", "3: a comment, which JSON does not have");
  for (const char* text :
       {R"(["\ud800"])", R"(["\ud800x"])", R"(["\udc00"])", R"(["\ud800\u0041"])"}) {
    EXPECT_NE(error_of(text).find(": a lone surrogate, expected a pair"), std::string::npos)
        << error_of(text);
  }
}

TEST(Json, Whitespace) {
  EXPECT_EQ(error_of(" \r\n\t[ 1 , 2 ] \n "), "");
}

TEST(Json, Malformed) {
  for (const char* text :
       {"",    " ",     "{",       "[1,",   "[1,]",      "{\"a\":1,}", "{a:1}",          "{'a':1}",
        "01",  "+1",    ".5",      "1.",    "nan",       "NaN",        "Infinity",       "-",
        "tru", "\"abc", "\"\\x\"", "[1 2]", "{\"a\" 1}", "// c\n1",    "\xEF\xBB\xBF{}", "\"\n\"",
        "]"}) {
    EXPECT_NE(error_of(text), "") << text;
  }
}

TEST(Json, TrailingText) {
  EXPECT_EQ(error_of("{} x"), "invalid JSON at byte 3: more text after the value");
  EXPECT_NE(error_of("{}{}"), "");
  EXPECT_NE(error_of(std::string_view("{}\0", 3)), "");
}

TEST(Json, DuplicateNames) {
  EXPECT_NE(error_of(R"({"a":1,"b":2,"a":3})").find("the name \"a\" twice"), std::string::npos);
  EXPECT_NE(error_of(R"({"x":{"k":1,"\u006b":2}})"), "");   // the same name, spelled differently
  EXPECT_EQ(error_of(R"({"a":{"b":1},"b":{"b":1}})"), "");  // different objects
  const std::string name(1000, 'n');
  const std::string message = error_of("{\"" + name + "\":1,\"" + name + "\":1}");
  EXPECT_NE(message, "");
  EXPECT_LT(message.size(), 200u);
}

TEST(Json, Depth) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(error_of(nested(64)), "");
  EXPECT_NE(error_of(nested(65)).find("got 65 levels of nesting, expected at most 64"),
            std::string::npos);
  EXPECT_NE(error_of(nested(100'000)).find("got 100000 levels"), std::string::npos);
  // Brackets inside strings, escaped quotes among them, are none.
  EXPECT_EQ(error_of("[\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"]"), "");
  EXPECT_NE(error_of("[\"[[\\\"\"," + nested(80) + "]").find("got 81 levels"), std::string::npos);
  EXPECT_NE(error_of(std::string(1'000'000, '[')), "");
  JsonLimits shallow;
  shallow.depth_max = 2;
  EXPECT_EQ(error_of("[[1]]", shallow), "");
  EXPECT_NE(error_of("[{\"a\":[1]}]", shallow), "");
}

TEST(Json, Size) {
  JsonLimits limits;
  limits.bytes_max = 8;
  EXPECT_EQ(error_of("[1,2,30]", limits), "");
  EXPECT_NE(error_of("[1,2,300]", limits).find("9 bytes, expected at most 8"), std::string::npos);
}

TEST(Json, QuotesForMessages) {
  EXPECT_EQ(quotable("plain"), "plain");
  EXPECT_EQ(quotable("a\nb\x01\x7f\"\\"), "a\\nb\\u0001\\u007f\\\"\\\\");
  EXPECT_EQ(quotable("\xC2\x85x\xC2\xA0"), "\\u0085x\xC2\xA0");
  EXPECT_EQ(quotable("a\xE2\x80\xAE"
                     "b\xE2\x80\xA8\xE2\x82\xAC"),
            "a\\u202eb\\u2028\xE2\x82\xAC");
  EXPECT_EQ(quotable("\xC3\x28\xFF"), "\xEF\xBF\xBD(\xEF\xBF\xBD");
  EXPECT_EQ(quotable("abc\xC3\xA9", 4), "abc...");  // never half a character
  EXPECT_EQ(quotable("abc\xC3\xA9", 5), "abc\xC3\xA9");
  EXPECT_EQ(quotable("", 0), "");
  EXPECT_EQ(error_of("{\"a\\u001b\\n\":1,\"a\\u001b\\n\":1}").find('\n'), std::string::npos);
  EXPECT_NE(error_of("{\"a\\u001b\":1,\"a\\u001b\":1}").find("\"a\\u001b\" twice"),
            std::string::npos);
}

TEST(Json, NulCharacters) {
  EXPECT_NE(error_of("\"a\\u0000b\"").find("NUL"), std::string::npos);
  EXPECT_NE(error_of("{\"a\\u0000\":1}").find("NUL"), std::string::npos);
  EXPECT_NE(error_of(std::string_view("\"a\0b\"", 5)), "");
  EXPECT_NE(error_of(std::string_view("\0", 1)), "");
}

TEST(Json, LimitsMayPermitWhatModelsWrite) {
  const JsonLimits limits{.takes_duplicates = true, .takes_nul = true};
  const auto value = parse_json(R"({"a":0,"b":[{"\u0000":"x\u0000"}],"a":{"a":1}})", limits);
  ASSERT_TRUE(value);
  EXPECT_EQ(to_json(*value), R"({"a":{"a":1},"b":[{"\u0000":"x\u0000"}]})");
  EXPECT_FALSE(parse_json(R"({"a":0,"a":})", limits));
}

TEST(Json, InvalidUtf8) {
  for (const char* bytes :
       {"\xC3\x28", "\x80", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xE2\x82", "\xFF"}) {
    EXPECT_NE(error_of(std::string("\"") + bytes + "\""), "");
    EXPECT_NE(error_of(std::string("{\"") + bytes + "\":1}"), "");
  }
  for (const char* escape :
       {"\\ud800", "\\udc00", "\\ud800x", "\\ud800\\u0041", "\\udc00\\ud800"}) {
    EXPECT_NE(error_of(std::string("\"") + escape + "\""), "") << escape;
  }
  EXPECT_EQ(error_of("\"\\ud83d\\ude00\""), "");
}

TEST(Json, Numbers) {
  EXPECT_TRUE(parse_json("18446744073709551615")->is_uint64());
  EXPECT_TRUE(parse_json("18446744073709551616")->is_double());
  EXPECT_TRUE(parse_json("-9223372036854775808")->is_int64());
  EXPECT_NE(error_of("1e999").find("beyond double precision"), std::string::npos);
  EXPECT_NE(error_of("-1e999"), "");
  EXPECT_NE(error_of("1e99999999999999999999"), "");
  EXPECT_EQ(number_of("1e-999"), 0.0);
  EXPECT_TRUE(std::signbit(number_of("-1e-999")));
  EXPECT_EQ(number_of("0.1"), 0.1);
  EXPECT_EQ(number_of("123456789.123456789"), 123456789.123456789);
  EXPECT_EQ(number_of("2.2250738585072014e-308"), std::numeric_limits<double>::min());
  EXPECT_EQ(number_of(std::string(400, '1') + "e-399"), 1.1111111111111111);
}

TEST(Json, DoublesKeepTheirBits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const double number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) continue;
    const Result<JsonValue> back = parse_json(to_json(JsonValue(number)));
    ASSERT_TRUE(back);
    ASSERT_TRUE(back->is_double());
    ASSERT_EQ(std::bit_cast<std::uint64_t>(back->get_double()),
              std::bit_cast<std::uint64_t>(number));
  }
  EXPECT_EQ(to_json(JsonValue(-0.0)), "-0.0");
  EXPECT_EQ(to_json(JsonValue(1.0)), "1.0");
  EXPECT_EQ(to_json(JsonValue(std::nan(""))), "null");
}

TEST(Json, FloatsKeepTheirBits) {
  std::mt19937 random(7);
  for (int i = 0; i < 50'000; ++i) {
    const float number = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(number)) continue;
    std::string text;
    append_json_number(text, number);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(number_of(text))),
              std::bit_cast<std::uint32_t>(number))
        << text;
  }
  std::string text;
  append_json_number(text, -0.1f);
  EXPECT_EQ(text, "-0.1");
}

TEST(Json, TextOfBrokenBytes) {
  std::string text;
  append_json_text(text, "a\xC3\x28\xE2\x82\x01\x7F");
  EXPECT_EQ(text, "\"a\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\\u0001\x7F\"");
  EXPECT_EQ(error_of(text), "");
}

}  // namespace
}  // namespace reprise
