// API keys: who is admitted as whom, and what a file of keys may say.
#include "api/api_keys.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace reprise {
namespace {

constexpr const char* kText =
    "# who            key\n"
    "alice            alice-secret-1\n"
    "\n"
    "ops\tops-secret-2 admin   # may see sums\r\n"
    "  bob@site-2.org  bob#3";  // no line feed at the end

std::string refusal(const std::string& text, const std::vector<std::string>& typed = {}) {
  const Result<ApiKeys> keys = ApiKeys::parse(typed, text, "keys.txt");
  return keys ? "" : keys.error().message;
}

TEST(ApiKeys, AFileGivesNamesAndAdmins) {
  const Result<ApiKeys> keys = ApiKeys::parse({"typed"}, kText, "keys.txt");
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->size(), 4U);
  const struct {
    const char* key;
    const char* name;
    bool is_admin;
  } kCases[] = {{"typed", "key-1", true},
                {"alice-secret-1", "alice", false},
                {"ops-secret-2", "ops", true},
                {"bob#3", "bob@site-2.org", false}};
  for (const auto& known : kCases) {
    const auto admitted = keys->admit(std::string("Bearer ") + known.key);
    ASSERT_TRUE(admitted) << known.key;
    EXPECT_EQ(admitted->name, known.name);
    EXPECT_EQ(admitted->is_admin, known.is_admin);
  }
  for (const char* wrong :
       {"", "Bearer ", "Bearer alice", "Basic alice-secret-1", "alice-secret-1",
        "Bearer alice-secret-", "Bearer alice-secret-1x", "Bearer ALICE-SECRET-1"}) {
    const auto refused = keys->admit(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().status, 401);
    EXPECT_EQ(refused.error().code, "invalid_api_key");
  }
  EXPECT_TRUE(keys->admit("bEARER   alice-secret-1  "));
}

TEST(ApiKeys, WithoutKeysEverybodyIsOneAdmin) {
  for (const char* header : {"", "Bearer anything"}) {
    const auto admitted = ApiKeys().admit(header);
    ASSERT_TRUE(admitted);
    EXPECT_EQ(admitted->name, "");
    EXPECT_TRUE(admitted->is_admin);
  }
}

TEST(ApiKeys, TypedKeysAreNumberedAdmins) {
  const ApiKeys keys({"a", "b"});
  EXPECT_EQ(keys.admit("Bearer a")->name, "key-1");
  EXPECT_EQ(keys.admit("Bearer b")->name, "key-2");
  EXPECT_TRUE(keys.admit("Bearer b")->is_admin);
  EXPECT_FALSE(keys.admit("Bearer c"));
}

TEST(ApiKeys, ErrorsNameFileAndLineAndNoSecret) {
  const struct {
    std::string text;
    std::string expected;
  } kCases[] = {
      {"alice secret-1\nbob\n", "keys.txt line 2: got 1 word, expected NAME KEY or NAME KEY admin"},
      {"alice secret-1 admin now",
       "keys.txt line 1: got 4 words, expected NAME KEY or NAME KEY admin"},
      {"alice secret-1 root",
       "keys.txt line 1: got a third word other than admin, expected NAME KEY or NAME KEY admin"},
      {"al/ice secret-1",
       "keys.txt line 1: got a name of 6 bytes, expected at most 64: letters, digits and . _ - @"},
      {std::string(65, 'a') + " secret-1",
       "keys.txt line 1: got a name of 65 bytes, expected at most 64: letters, digits and . _ - @"},
      {"alice secr\xc3\xa9t-1",
       "keys.txt line 1: got a key with other bytes, expected printable ASCII without spaces"},
      {"alice secret-1\n#\nalice secret-2",
       "keys.txt line 3: got the name of line 1 again, expected each once"},
      {"alice secret-1\nbob secret-1",
       "keys.txt line 2: got the key of line 1 again, expected each once"},
      {"", "keys.txt: got no key in 0 lines, expected one or more lines NAME KEY"},
      {"# alice secret-1\n\n",
       "keys.txt: got no key in 2 lines, expected one or more lines NAME KEY"},
  };
  for (const auto& wrong : kCases) {
    EXPECT_EQ(refusal(wrong.text), wrong.expected);
    EXPECT_EQ(refusal(wrong.text).find("secret"), std::string::npos);
  }
}

TEST(ApiKeys, TypedKeysCountAsGivenToo) {
  EXPECT_EQ(refusal("alice typed-secret", {"typed-secret"}),
            "keys.txt line 1: got the key of key-1 (--api-key) again, expected each once");
  EXPECT_EQ(refusal("key-1 secret-1", {"typed-secret"}),
            "keys.txt line 1: got the name of key-1 (--api-key) again, expected each once");
  EXPECT_EQ(refusal("key-1 secret-1"), "");
  EXPECT_EQ(refusal("# nobody", {"typed-secret"}),
            "keys.txt: got no key in 1 lines, expected one or more lines NAME KEY");
}

TEST(ApiKeys, LoadReadsTheFileAndNamesIt) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "reprise_api_keys_test.txt";
  std::ofstream(path) << kText;
  const Result<ApiKeys> keys = ApiKeys::load({}, path);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->admit("Bearer bob#3")->name, "bob@site-2.org");
  std::ofstream(path) << "one";
  const Result<ApiKeys> broken = ApiKeys::load({}, path);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message,
            path.string() + " line 1: got 1 word, expected NAME KEY or NAME KEY admin");
  std::filesystem::remove(path);
  const Result<ApiKeys> missing = ApiKeys::load({"typed"}, path);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find(path.string()), std::string::npos);
  EXPECT_EQ(ApiKeys::load({"typed"}, "")->size(), 1U);
}

}  // namespace
}  // namespace reprise
