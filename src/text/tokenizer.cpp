// Tokenizer over text-ffi: the vocabulary is handed over once, the token table is read in place.
#include "text/tokenizer.h"

#include <algorithm>
#include <bitset>
#include <utility>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <fmt/core.h>

#include "text/ffi.h"

namespace reprise {
namespace {

struct FreeTokenizer {
  void operator()(TextTokenizer* tokenizer) const { text_tokenizer_free(tokenizer); }
};

std::vector<TextSlice> slices(const std::vector<std::string_view>& texts) {
  std::vector<TextSlice> result;
  result.reserve(texts.size());
  for (const std::string_view text : texts) result.push_back(ffi::slice(text));
  return result;
}

static_assert(sizeof(TokenType) == sizeof(std::uint8_t));

TextVocabulary lent_form(const Vocabulary& vocabulary, const std::vector<TextSlice>& tokens,
                         const std::vector<TextSlice>& merges) {
  return {
      .kind = static_cast<std::uint8_t>(
          vocabulary.kind == VocabularyKind::scores ? TEXT_KIND_SCORES : TEXT_KIND_MERGES),
      .add_bos = vocabulary.add_bos,
      .add_eos = vocabulary.add_eos,
      .add_space_prefix = vocabulary.add_space_prefix,
      .bos = vocabulary.bos.value_or(-1),
      .eos = vocabulary.eos.value_or(-1),
      .unknown = vocabulary.unknown.value_or(-1),
      .tokens = tokens.data(),
      .token_count = tokens.size(),
      .scores = vocabulary.scores.data(),
      .score_count = vocabulary.scores.size(),
      .types = reinterpret_cast<const std::uint8_t*>(vocabulary.types.data()),
      .type_count = vocabulary.types.size(),
      .merges = merges.data(),
      .merge_count = merges.size(),
      .pre_tokenizer = ffi::slice(vocabulary.pre_tokenizer),
  };
}

}  // namespace

struct Tokenizer::State {
  std::unique_ptr<TextTokenizer, FreeTokenizer> tokenizer;
  std::size_t longest_bytes = 1;      // of the text that one token can stand for
  std::bitset<256> bytes_with_token;  // that a text cannot have without having tokens for them
  TextTokenTable table{};
  std::optional<TokenId> bos, eos;

  bool has(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < table.count; }
  void note_lengths();
};

// Bytes without a token of their own may vanish, or share one unknown token: they count for
// nothing; none does where text may vanish anyhow.
void Tokenizer::State::note_lengths() {
  if (table.longest_text == 0) return;
  longest_bytes = table.longest_text;
  for (std::size_t id = 0; id < table.count; id++) {
    const std::size_t size = table.offsets[id + 1] - table.offsets[id];
    if (size == 1) bytes_with_token.set(table.bytes[table.offsets[id]]);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::from_vocabulary(const Vocabulary& vocabulary) {
  // Absent ids are nullopt; a negative one would pass for absent on the other side.
  for (const auto& id : {vocabulary.bos, vocabulary.eos, vocabulary.unknown}) {
    if (id && *id < 0) {
      return fail(Errc::corrupt, fmt::format("special token id {}, expected at least 0", *id));
    }
  }
  const auto tokens = slices(vocabulary.tokens);
  const auto merges = slices(vocabulary.merges);
  const TextVocabulary lent = lent_form(vocabulary, tokens, merges);
  TextTokenizer* tokenizer = nullptr;
  ffi::Buffer error;
  if (const auto status = text_tokenizer_new(&lent, &tokenizer, error.out()); status != TEXT_OK) {
    return ffi::failure(status, error);
  }
  auto state = std::make_unique<State>();
  state->tokenizer.reset(tokenizer);
  state->bos = vocabulary.bos;
  state->eos = vocabulary.eos;
  Tokenizer made = with_table(std::move(state));
  // In a scored vocabulary a whole character is unknown or not: all its bytes count, or none.
  auto& counted = made.state_->bytes_with_token;
  if (vocabulary.kind == VocabularyKind::scores && !counted.all()) counted.reset();
  return made;
}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json,
                                       const TokenizerNames& names) {
  TextTokenizer* tokenizer = nullptr;
  ffi::Buffer error;
  const auto status = text_tokenizer_from_json(ffi::slice(tokenizer_json), &tokenizer, error.out());
  if (status != TEXT_OK) return ffi::failure(status, error);
  auto state = std::make_unique<State>();
  state->tokenizer.reset(tokenizer);
  Tokenizer made = with_table(std::move(state));
  const std::pair<std::string_view, std::string_view> named[] = {{"bos_token", names.bos},
                                                                 {"eos_token", names.eos}};
  for (const auto& [field, name] : named) {
    if (name.empty()) continue;
    const std::optional<TokenId> id = made.find(name);
    if (!id) {
      return fail(Errc::corrupt, fmt::format("{}: tokenizer.json has no token \"{}\"", field, name),
                  std::string(field));
    }
    (field == "bos_token" ? made.state_->bos : made.state_->eos) = id;
  }
  return made;
}

Tokenizer Tokenizer::with_table(std::unique_ptr<State> state) {
  state->table = text_tokenizer_table(state->tokenizer.get());
  state->note_lengths();
#if defined(__GLIBC__)
  malloc_trim(0);  // building takes tens of megabytes that nothing needs again
#endif
  return Tokenizer(std::move(state));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, AddSpecial add,
                                               ParseSpecial parse) const {
  TextIds ids{};
  ffi::Buffer error;
  const auto status =
      text_tokenizer_encode(state_->tokenizer.get(), ffi::slice(text), add == AddSpecial::yes,
                            parse == ParseSpecial::yes, &ids, error.out());
  if (status != TEXT_OK) return ffi::failure(status, error);
  std::vector<TokenId> result(ids.data, ids.data + ids.size);
  text_ids_free(&ids);
  return result;
}

std::size_t Tokenizer::least_tokens(std::string_view text) const {
  const auto counted = std::ranges::count_if(text, [this](char byte) {
    return state_->bytes_with_token[static_cast<unsigned char>(byte)];
  });
  const auto counted_bytes = static_cast<std::size_t>(counted);
  // Composing characters (Unicode NFC, before merges) leaves a third at least.
  const bool is_ascii =
      std::ranges::all_of(text, [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
  return counted_bytes / (state_->longest_bytes * (is_ascii ? 1 : 3));
}

std::size_t Tokenizer::size() const {
  return state_->table.count;
}

std::vector<TokenId> Tokenizer::missing_ids() const {
  const TextTokenTable& table = state_->table;
  return {table.missing, table.missing + table.missing_count};
}

bool Tokenizer::is_special(TokenId id) const {
  return state_->has(id) && state_->table.special[id] != 0;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  if (!state_->has(id)) return {};
  const TextTokenTable& table = state_->table;
  const std::uint32_t begin = table.offsets[id];
  return {reinterpret_cast<const char*>(table.bytes) + begin, table.offsets[id + 1] - begin};
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  const TokenId id = text_tokenizer_find(state_->tokenizer.get(), ffi::slice(token));
  return id < 0 ? std::nullopt : std::optional(id);
}

std::optional<TokenId> Tokenizer::bos() const {
  return state_->bos;
}
std::optional<TokenId> Tokenizer::eos() const {
  return state_->eos;
}

const TextTokenizer& Tokenizer::ffi() const {
  return *state_->tokenizer;
}

}  // namespace reprise
