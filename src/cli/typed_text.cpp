// UTF-8 by hand where wide characters are code points (Linux).
#include "cli/typed_text.h"

#include "text/utf8.h"

namespace reprise {
namespace {

constexpr wchar_t kReplacement = 0xFFFD;
constexpr std::string_view kSpace = " \t\r\n\v\f";

void append_utf8(std::string& text, wchar_t character) {
  auto code = static_cast<std::uint32_t>(character);
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = kReplacement;
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
    return;
  }
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

// Of the bytes of one valid character.
wchar_t code_of(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  std::uint32_t code = bytes.size() == 1 ? lead : lead & (0x7FU >> bytes.size());
  for (const char byte : bytes.substr(1)) code = code << 6 | (static_cast<unsigned>(byte) & 0x3F);
  return static_cast<wchar_t>(code);
}

}  // namespace

bool take_character(std::string& bytes, wchar_t& character) {
  if (bytes.empty()) return false;
  const Utf8Front front = utf8_front(bytes);
  if (front.kind == Utf8Front::Kind::incomplete) return false;
  character = front.kind == Utf8Front::Kind::invalid
                  ? kReplacement
                  : code_of(std::string_view(bytes).substr(0, front.size));
  bytes.erase(0, front.size);
  return true;
}

std::string utf8_of(std::wstring_view text) {
  std::string bytes;
  for (const wchar_t character : text) append_utf8(bytes, character);
  return bytes;
}

std::wstring pasted_text(std::wstring_view text) {
  std::wstring clean;
  for (std::size_t i = 0; i < text.size(); i++) {
    const wchar_t character = text[i];
    if (character == L'\r') {
      if (i + 1 < text.size() && text[i + 1] == L'\n') continue;  // its line feed stands for both
      clean += L'\n';
    } else if (character == L'\n' || character == L'\t' ||
               (character >= 0x20 && character != 0x7F)) {
      clean += character;
    }
  }
  return clean;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}

ChatCommand chat_command(std::string_view message) {
  if (is_blank(message)) return ChatCommand::none;
  message = message.substr(0, message.find_last_not_of(kSpace) + 1);
  if (message.front() != '/' || message.find_first_of(kSpace) != std::string_view::npos ||
      message.find('/', 1) != std::string_view::npos) {
    return ChatCommand::none;
  }
  if (message == "/exit" || message == "/quit" || message == "/bye") return ChatCommand::leave;
  if (message == "/help") return ChatCommand::help;
  if (message == "/reset") return ChatCommand::reset;
  return ChatCommand::unknown;
}

}  // namespace reprise
