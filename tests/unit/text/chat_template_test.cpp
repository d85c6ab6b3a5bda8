// Chat templates: texts equal Python jinja2's as transformers sets it up
// (tools/goldens/make_template_goldens.py), hostile templates end in errors.
#include "text/chat_template.h"

#include <pthread.h>

#include <gtest/gtest.h>

#include "base/machine.h"
#include "golden.h"
#include "support/cpu_seconds.h"

namespace reprise::test {
namespace {

std::string render(std::string_view source, const std::vector<ChatMessage>& messages = {}) {
  const auto compiled = ChatTemplate::compile(source);
  if (!compiled) return "compile error: " + compiled.error().message;
  const auto text = compiled->render(messages, {.bos_token = "<bos>", .eos_token = "</s>"});
  return text ? *text : "error: " + text.error().message;
}

TEST(ChatTemplate, TextsEqualTransformers) {
  const JsonValue golden = read_golden("template_texts.json");
  std::size_t compared = 0;
  for (const JsonValue& value : golden.at("templates").as_array()) {
    const std::string name(value.at("template").as_string());
    const std::string_view source = name == "gemma3"
                                        ? builtin_chat_template(name)
                                        : std::string_view(value.at("source").as_string());
    const auto compiled = ChatTemplate::compile(source);
    ASSERT_TRUE(compiled.has_value()) << name << ": " << compiled.error().message;
    for (const JsonValue& expected : value.at("cases").as_array()) {
      std::vector<ChatMessage> messages;
      for (const JsonValue& message : expected.at("messages").as_array()) {
        messages.push_back({.role = std::string(message.at("role").as_string()),
                            .content = std::string(message.at("content").as_string())});
      }
      const bool prompt = expected.at("add_generation_prompt").as_bool();
      const auto text = compiled->render(
          messages, {.add_generation_prompt = prompt, .bos_token = "<bos>", .eos_token = "</s>"});
      if (expected.as_object().contains("error")) {
        ASSERT_FALSE(text.has_value()) << name << " " << to_json(expected);
        EXPECT_EQ(text.error().message, std::string(expected.at("error").as_string()));
        EXPECT_EQ(text.error().code, Errc::invalid_argument);
      } else {
        ASSERT_TRUE(text.has_value()) << name << ": " << text.error().message;
        EXPECT_EQ(*text, std::string(expected.at("text").as_string()))
            << name << " " << to_json(expected);
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 150U);
}

TEST(ChatTemplate, BuiltinTemplates) {
  EXPECT_FALSE(builtin_chat_template("gemma3").empty());
  EXPECT_TRUE(builtin_chat_template("llama").empty());
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  const auto syntax = ChatTemplate::compile("a\nb\n{% if x %}\n{{ x.y( }}\n");
  ASSERT_FALSE(syntax.has_value());
  EXPECT_EQ(syntax.error().code, Errc::invalid_argument);
  EXPECT_NE(syntax.error().message.find("(line 4)"), std::string::npos) << syntax.error().message;
  EXPECT_EQ(render("a\n{{ messages[0].missing.deeper }}", {{.role = "user", .content = ""}}),
            "error: chat template: undefined value (line 2)");
  EXPECT_EQ(
      render("{{ raise_exception('no ' ~ messages[0].role) }}", {{.role = "x", .content = ""}}),
      "error: no x");
}

TEST(ChatTemplate, BytesThatAreNoTextAreErrors) {
  EXPECT_EQ(render("\xFF").find("compile error: chat template is not UTF-8"), 0U);
  EXPECT_EQ(
      render("{{ messages }}", {{.role = "user", .content = ""}, {.role = "a", .content = "\xC3"}}),
      "error: message 1 is not UTF-8");
}

TEST(ChatTemplate, HostileTemplatesEndSoonWithoutMuchMemory) {
  const char* const sources[] = {
      "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}",
      "{% for a in range(100000000000) %}x{% endfor %}",
      "{{ 'x' * 2000000000 }}",
      ("{% set n = namespace(s='x') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor "
       "%}{{ n.s }}"),
      "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
      "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
  };
  for (const char* source : sources) {
    const std::size_t before = memory_resident_bytes();
    const double start = cpu_seconds();
    const std::string text = render(source);
    const double seconds = cpu_seconds() - start;
    EXPECT_EQ(text.substr(0, 7), "error: ") << source;
    EXPECT_LT(seconds, 20) << source;  // under a sanitizer; else it is a fraction of one
    EXPECT_LT(memory_resident_bytes(), before + (std::size_t{512} << 20)) << source;
  }
  std::string deep;
  for (int level = 0; level < 100'000; ++level) deep += "{{ (";
  EXPECT_EQ(render(deep).find("compile error: "), 0U);
  EXPECT_EQ(render("{{ " + std::string(200'000, '(') + "1").find("compile error: "), 0U);
}

// ThreadSanitizer keeps 768 KiB of its own on every thread's stack.
#ifdef __SANITIZE_THREAD__
constexpr std::size_t kToolsStackBytes = 768 << 10;
#else
constexpr std::size_t kToolsStackBytes = 0;
#endif

TEST(ChatTemplate, RecursionFitsTheStackThatTheHeaderPromises) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, (512 << 10) + kToolsStackBytes), 0);
  pthread_t thread;
  std::string text;
  const auto body = [](void* out) -> void* {
    *static_cast<std::string*>(out) = render(
        "{% macro f(n) %}{% for i in [1] %}{% if true %}{% set x %}{{ f(n + 1) | upper | tojson }}"
        "{% endset %}{{ x }}{% endif %}{% endfor %}{% endmacro %}{{ f(0) }}");
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &text), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  ASSERT_EQ(pthread_attr_destroy(&attributes), 0);
  EXPECT_EQ(text.find("error: chat template: "), 0U) << text;
}

TEST(ChatTemplate, LongChatsHaveStepsEnough) {
  std::vector<ChatMessage> messages;
  for (int turn = 0; turn < 20'000; ++turn) {
    messages.push_back(
        {.role = turn % 2 == 0 ? "user" : "assistant", .content = "words and words"});
  }
  const std::string text = render(builtin_chat_template("gemma3"), messages);
  EXPECT_EQ(text.substr(0, 7), "<bos><s");
  EXPECT_GT(text.size(), 20'000U * 40);
}

}  // namespace
}  // namespace reprise::test
