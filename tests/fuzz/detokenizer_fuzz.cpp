// Fuzzes the way from token ids to text: whole characters only, none lost, and stop strings found
// at the same place however the text is cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace reprise {
namespace {

// A token of each byte, some of more bytes, some that are parts of characters, one special.
Tokenizer make_tokenizer() {
  std::vector<std::string> tokens = {"<unk>", "<s>"};
  Vocabulary vocabulary;
  vocabulary.unknown = 0;
  vocabulary.types = {TokenType::unknown, TokenType::control};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  vocabulary.types.resize(tokens.size(), TokenType::byte);
  for (const char* text : {"ab", "abc", "\xE2\x96\x81the", "\xC3\xA9", "\xF0\x9F\x98\x80"}) {
    tokens.emplace_back(text);
  }
  vocabulary.types.resize(tokens.size(), TokenType::normal);
  vocabulary.scores.resize(tokens.size(), -1);
  vocabulary.tokens.assign(tokens.begin(), tokens.end());
  auto tokenizer = Tokenizer::from_vocabulary(vocabulary);
  CHECK(tokenizer.has_value());
  return std::move(*tokenizer);
}

std::string lossy(std::string_view bytes) {
  std::string pending(bytes);
  std::string text = take_utf8(pending);
  if (!pending.empty()) text += kReplacementCharacter;
  return text;
}

// The text that comes out, and whether a stop string was found.
std::pair<std::string, bool> stopped_text(const std::vector<std::string>& stops,
                                          std::string_view text, std::size_t size) {
  StopStrings stop(stops);
  std::string out;
  for (std::size_t at = 0; at < text.size() && !stop.stopped(); at += size) {
    const StopStrings::Outcome outcome = stop.push(text.substr(at, size));
    CHECK(outcome.stopped == stop.stopped());
    out += outcome.text;
  }
  out += stop.finish();
  return {out, stop.stopped()};
}

void exercise_ids(const Tokenizer& tokenizer, std::string_view data) {
  Detokenizer detokenizer(tokenizer);
  std::string bytes, text;
  for (std::size_t at = 0; at + 1 < data.size(); at += 2) {
    const unsigned value =
        static_cast<std::uint8_t>(data[at]) + 256u * static_cast<std::uint8_t>(data[at + 1]);
    const auto id = static_cast<TokenId>(value % (tokenizer.size() + 2));
    const std::string piece = detokenizer.push(id);
    CHECK(is_utf8(piece));
    text += piece;
    if (!tokenizer.is_special(id)) bytes += tokenizer.token_bytes(id);
    // What is held is the beginning of one character.
    CHECK(lossy(bytes).starts_with(text) && bytes.size() < text.size() + 4);
  }
  text += detokenizer.finish();
  CHECK(text == lossy(bytes) && is_utf8(text));
}

void exercise_stops(std::string_view data) {
  // Lines; the first is the text, the others are the stop strings.
  std::vector<std::string> stops;
  const std::string_view text = data.substr(0, data.find('\n'));
  data.remove_prefix(std::min(text.size() + 1, data.size()));
  while (!data.empty() && stops.size() < 8) {
    const std::string_view line = data.substr(0, data.find('\n'));
    if (!line.empty()) stops.emplace_back(line.substr(0, 64));
    data.remove_prefix(std::min(line.size() + 1, data.size()));
  }
  std::size_t first = std::string_view::npos;
  for (const std::string& stop : stops) first = std::min(first, text.find(stop));
  const bool is_found = first != std::string_view::npos;
  for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{5}, text.size() + 1}) {
    const auto [out, stopped] = stopped_text(stops, text, size);
    CHECK(stopped == is_found && out == text.substr(0, first));
  }
}

}  // namespace
}  // namespace reprise

// The first byte: ids (even) or stop strings (odd).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const reprise::Tokenizer tokenizer = reprise::make_tokenizer();
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    reprise::exercise_ids(tokenizer, rest.substr(0, 512));
  } else {
    reprise::exercise_stops(rest.substr(0, 1024));
  }
  return 0;
}
