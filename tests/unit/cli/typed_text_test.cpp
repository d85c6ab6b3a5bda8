// What is typed: bytes to characters and back, pastes, commands.
#include "cli/typed_text.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace reprise {
namespace {

std::wstring characters_of(std::string bytes) {
  std::wstring text;
  wchar_t character = 0;
  while (take_character(bytes, character)) text += character;
  EXPECT_TRUE(bytes.empty());
  return text;
}

TEST(TypedText, CharactersGoThereAndBack) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x8F\xA0\xF4\x8F\xBF\xBF\t\x1b";
  EXPECT_EQ(characters_of(text), L"a\u00E9\u20AC\U0001F3E0\U0010FFFF\t\x1b");
  EXPECT_EQ(utf8_of(characters_of(text)), text);
}

TEST(TypedText, ACharacterWaitsForItsBytes) {
  const std::string whole = "\xF0\x9F\x8F\xA0";
  std::string bytes;
  wchar_t character = 0;
  EXPECT_FALSE(take_character(bytes, character));
  for (std::size_t i = 0; i + 1 < whole.size(); i++) {
    bytes += whole[i];
    EXPECT_FALSE(take_character(bytes, character)) << i;
  }
  bytes += whole.back();
  EXPECT_TRUE(take_character(bytes, character));
  EXPECT_EQ(character, L'\U0001F3E0');
}

TEST(TypedText, WhatIsNoTextBecomesTheReplacementCharacter) {
  EXPECT_EQ(characters_of("x\xFFy\xC3z"), L"x\uFFFDy\uFFFDz");
  const wchar_t surrogate[] = {static_cast<wchar_t>(0xD800), static_cast<wchar_t>(0x110000)};
  EXPECT_EQ(utf8_of({surrogate, 2}), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(TypedText, PastesKeepTheirLinesAndLoseTheirControls) {
  EXPECT_EQ(pasted_text(L"one\rtwo\r\nthree\nfour"), L"one\ntwo\nthree\nfour");
  EXPECT_EQ(pasted_text(L"a\tb\r\r"), L"a\tb\n\n");
  EXPECT_EQ(pasted_text(std::wstring(L"x\0\x03\x1b[A\x7Fy", 9)), L"x[Ay");
}

TEST(TypedText, OneWordBehindASlashIsACommand) {
  const std::pair<const char*, ChatCommand> cases[] = {
      {"/exit", ChatCommand::leave},
      {"/quit", ChatCommand::leave},
      {"/bye ", ChatCommand::leave},
      {"/help", ChatCommand::help},
      {"/reset", ChatCommand::reset},
      {"/exti", ChatCommand::unknown},
      {"/?", ChatCommand::unknown},
      {"/", ChatCommand::unknown},
      {"", ChatCommand::none},
      {"exit", ChatCommand::none},
      {"/help me", ChatCommand::none},
      {"/help\nme", ChatCommand::none},
      {"/etc/passwd", ChatCommand::none},
  };
  for (const auto& [message, command] : cases) EXPECT_EQ(chat_command(message), command) << message;
  for (const char* blank : {"", " ", "\t\n  \r"}) EXPECT_TRUE(is_blank(blank));
  EXPECT_FALSE(is_blank(" x "));
}

}  // namespace
}  // namespace reprise
