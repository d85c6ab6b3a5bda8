// What is typed and pasted, as text: bytes to characters and back, and which lines are commands.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise {

// The first character of `bytes`, taken out of it; U+FFFD for what is no UTF-8. False: they are the
// beginning of a character (or none), more must come first.
bool take_character(std::string& bytes, wchar_t& character);

// Of any characters: what has no UTF-8 becomes U+FFFD.
std::string utf8_of(std::wstring_view text);

// Line ends of every kind become \n; control characters other than tabs are left out.
std::wstring pasted_text(std::wstring_view text);

// Nothing, or nothing but space.
bool is_blank(std::string_view text);

// A message of one word that begins with a slash, and has no other (a path has): a command.
enum class ChatCommand : std::uint8_t { none, leave, help, reset, unknown };
ChatCommand chat_command(std::string_view message);

}  // namespace reprise
