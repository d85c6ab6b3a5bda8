// Fuzzes the reader of tokenizer.json: any bytes are refused in one line, or make a tokenizer whose
// ids and texts are within its vocabulary.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace reprise {
namespace {

void exercise(std::string_view json) {
  const auto tokenizer = Tokenizer::from_json(json, {});
  if (!tokenizer) {
    CHECK(tokenizer.error().message.starts_with("tokenizer.json: ") ||
          tokenizer.error().message.starts_with("the text library panicked"));
    CHECK(tokenizer.error().message.find('\n') == std::string::npos);
    return;
  }
  const std::string_view text = "the cat  sat\n<s> na\u00efve \U0001F600 12345 <turn>";
  for (const ParseSpecial parse : {ParseSpecial::no, ParseSpecial::yes}) {
    const auto ids = tokenizer->encode(text, AddSpecial::yes, parse);
    if (!ids) continue;
    Detokenizer detokenizer(*tokenizer);
    for (const TokenId id : *ids) {
      CHECK(id >= 0 && static_cast<std::size_t>(id) < tokenizer->size());
      CHECK(is_utf8(detokenizer.push(id)));
    }
    CHECK(is_utf8(detokenizer.finish()));
    const auto plain = tokenizer->encode(text, AddSpecial::no, parse);
    CHECK(plain && tokenizer->least_tokens(text) <= plain->size());
  }
  for (const TokenId id : tokenizer->missing_ids()) CHECK(tokenizer->token_bytes(id).empty());
}

}  // namespace
}  // namespace reprise

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reprise::exercise({reinterpret_cast<const char*>(data), size});
  return 0;
}
