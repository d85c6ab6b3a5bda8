// The families' chat templates render as transformers renders them
// (tools/goldens/make_template_goldens.py --families). Published templates belong to others: their
// texts come from tools/fetch_templates, whose folder the environment names.
#include <cstdlib>
#include <ctime>

#include <gtest/gtest.h>

#include "base/file.h"
#include "golden.h"
#include "text/chat_template.h"

namespace reprise::test {
namespace {

std::size_t compare_cases(const JsonValue& golden, const JsonValue& named,
                          std::string_view source) {
  const std::string name(named.at("template").as_string());
  const auto compiled = ChatTemplate::compile(source);
  EXPECT_TRUE(compiled.has_value()) << name << ": " << compiled.error().message;
  if (!compiled) return 0;
  std::size_t compared = 0;
  for (const JsonValue& expected : named.at("cases").as_array()) {
    std::vector<ChatMessage> messages;
    for (const JsonValue& message : expected.at("messages").as_array()) {
      messages.push_back({.role = std::string(message.at("role").as_string()),
                          .content = std::string(message.at("content").as_string())});
    }
    ChatTemplate::Options options;
    options.add_generation_prompt = expected.at("add_generation_prompt").as_bool();
    options.bos_token = "<bos>";
    options.eos_token = "</s>";
    options.now = golden.at("now").as_int64();
    const JsonValue* variables = expected.as_object().if_contains("variables");
    if (variables != nullptr) options.variables = variables->as_object();
    const auto text = compiled->render(messages, options);
    const bool fails = expected.as_object().contains("error");
    const std::string wanted(expected.at(fails ? "error" : "text").as_string());
    EXPECT_EQ(text.has_value(), !fails) << name << ": " << to_json(expected);
    EXPECT_EQ(text ? *text : text.error().message, wanted) << name << ": " << to_json(expected);
    ++compared;
  }
  return compared;
}

class TemplateFamilies : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("TZ", "UTC", 1), 0);
    tzset();
  }
  const JsonValue golden_ = read_golden("template_families.json");
};

TEST_F(TemplateFamilies, OurOwnEqualTransformers) {
  std::size_t families = 0;
  for (const JsonValue& named : golden_.at("templates").as_array()) {
    const std::string_view name = named.at("template").as_string();
    if (!name.starts_with("builtin ")) continue;
    const std::string_view source = builtin_chat_template(name.substr(8));
    ASSERT_FALSE(source.empty()) << name;
    EXPECT_GE(compare_cases(golden_, named, source), 18U) << name;
    ++families;
  }
  EXPECT_EQ(families, 3U);
}

TEST_F(TemplateFamilies, PublishedOnesEqualTransformers) {
  const char* folder = std::getenv("REPRISE_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "REPRISE_TEMPLATES names no folder of fetch_templates";
  std::size_t families = 0;
  for (const JsonValue& named : golden_.at("templates").as_array()) {
    const std::string name(named.at("template").as_string());
    if (name.starts_with("builtin ")) continue;
    const auto source = read_file(std::string(folder) + "/" + name + ".jinja", 1 << 20);
    ASSERT_TRUE(source.has_value()) << source.error().message;
    EXPECT_GE(compare_cases(golden_, named, *source), 18U) << name;
    ++families;
  }
  EXPECT_GE(families, 7U);
}

TEST_F(TemplateFamilies, VariablesCannotReplaceTheChat) {
  const auto compiled =
      ChatTemplate::compile("{{ messages | length }} {{ add_generation_prompt }} {{ tools }}");
  ASSERT_TRUE(compiled.has_value());
  ChatTemplate::Options options;
  options.variables = {{"messages", "x"}, {"add_generation_prompt", 7}, {"tools", JsonArray{1}}};
  EXPECT_EQ(compiled->render({{.role = "user", .content = "hi"}}, options), "1 True None");
  options.variables = {};
  EXPECT_EQ(compiled->render({}, options), "0 True None");
}

TEST_F(TemplateFamilies, TheClockIsNowByDefault) {
  const auto compiled = ChatTemplate::compile("{{ strftime_now('%Y') }}");
  ASSERT_TRUE(compiled.has_value());
  ChatTemplate::Options options;
  const auto text = compiled->render({}, options);
  ASSERT_TRUE(text.has_value());
  EXPECT_GE(std::stoi(*text), 2025);
  options.now = 0;
  EXPECT_EQ(compiled->render({}, options), "1970");
}

}  // namespace
}  // namespace reprise::test
