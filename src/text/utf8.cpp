// Where UTF-8 characters end, by the table of well-formed sequences (Unicode 15, table 3-7).
#include "text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace reprise {
namespace {

// A lead byte: how many bytes its character has (0: none), and the range of its second byte.
struct Lead {
  std::size_t size;
  std::uint8_t second_min, second_max;
};

Lead lead_of(std::uint8_t byte) {
  if (byte <= 0x7F) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // not shorter forms in disguise
  if (byte == 0xED) return {3, 0x80, 0x9F};  // not surrogates
  if (byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // not past U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Front utf8_front(std::string_view bytes) {
  using enum Utf8Front::Kind;
  const Lead lead = lead_of(static_cast<std::uint8_t>(bytes[0]));
  if (lead.size == 0) return {invalid, 1};
  for (std::size_t place = 1; place < lead.size; ++place) {
    if (place == bytes.size()) return {incomplete, place};
    const auto byte = static_cast<std::uint8_t>(bytes[place]);
    const std::uint8_t min = place == 1 ? lead.second_min : 0x80;
    const std::uint8_t max = place == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {invalid, place};
  }
  return {character, lead.size};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Front front = utf8_front(text);
    if (front.kind != Utf8Front::Kind::character) return false;
    text.remove_prefix(front.size);
  }
  return true;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

std::string take_utf8(std::string& pending) {
  std::string text;
  std::string_view rest = pending;
  while (!rest.empty()) {
    const Utf8Front front = utf8_front(rest);
    if (front.kind == Utf8Front::Kind::incomplete) break;
    const bool is_whole = front.kind == Utf8Front::Kind::character;
    text += is_whole ? rest.substr(0, front.size) : kReplacementCharacter;
    rest.remove_prefix(front.size);
  }
  pending.erase(0, pending.size() - rest.size());
  return text;
}

}  // namespace reprise
