// GrammarCompiler and GrammarMatcher over text-ffi.
#include "text/grammar.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <fmt/core.h>

#include "text/ffi.h"

namespace reprise {
namespace {

struct FreeVocabulary {
  void operator()(TextGrammarVocabulary* vocabulary) const {
    text_grammar_vocabulary_free(vocabulary);
  }
};
struct FreeGrammar {
  void operator()(TextGrammar* grammar) const { text_grammar_free(grammar); }
};

using OwnedVocabulary = std::unique_ptr<TextGrammarVocabulary, FreeVocabulary>;

}  // namespace

struct GrammarMatcher::State {
  std::unique_ptr<TextGrammar, FreeGrammar> grammar;
  std::vector<std::uint32_t> mask;
};

GrammarMatcher::GrammarMatcher(std::unique_ptr<State> state) : state_(std::move(state)) {}
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;
GrammarMatcher::~GrammarMatcher() = default;

Result<GrammarMatcher> GrammarMatcher::copy() const {
  TextGrammar* copied = nullptr;
  ffi::Buffer error;
  const TextStatus status = text_grammar_copy(state_->grammar.get(), &copied, error.out());
  if (status != TEXT_OK) return ffi::failure(status, error);
  auto state = std::make_unique<State>();
  state->grammar.reset(copied);
  state->mask.resize(state_->mask.size());
  return GrammarMatcher(std::move(state));
}

Status GrammarMatcher::compute_mask() {
  ffi::Buffer error;
  const TextStatus status = text_grammar_mask(state_->grammar.get(), state_->mask.data(),
                                              state_->mask.size(), error.out());
  if (status != TEXT_OK) return ffi::failure(status, error);
  return {};
}

std::span<const std::uint32_t> GrammarMatcher::mask() const {
  return state_->mask;
}

Result<bool> GrammarMatcher::advance(TokenId token) {
  ffi::Buffer error;
  bool goes_on = false;
  const TextStatus status = text_grammar_advance(
      state_->grammar.get(), static_cast<std::uint32_t>(token), &goes_on, error.out());
  if (status != TEXT_OK) return ffi::failure(status, error);
  return goes_on;
}

struct GrammarCompiler::State {
  State(const Tokenizer& of, std::vector<TokenId> stops, int size)
      : tokenizer(of), stop_ids(std::move(stops)), vocabulary_size(size) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (builder.joinable()) builder.join();
  }

  // Under the lock: begins to build unless that is under way or done. What the system refused once
  // is tried again.
  Status begin() {
    if (is_building || vocabulary) return {};
    if (builder.joinable()) builder.join();  // it has told its failure and is at its end
    try {
      builder = std::thread([this] {
        Result<OwnedVocabulary> made = build();
        const std::lock_guard built_lock(mutex);
        is_building = false;
        if (made || made.error().code != Errc::io) {
          vocabulary = std::move(made);
        } else {
          trouble = made.error();
        }
        changed.notify_all();
      });
    } catch (const std::exception& error) {
      return fail(Errc::io, fmt::format("no thread to prepare grammars: {}", error.what()));
    }
    is_building = true;
    return {};
  }

  Result<OwnedVocabulary> build() const;
  Result<OwnedVocabulary> build_unguarded() const;

  // Waits for the builder.
  Result<const TextGrammarVocabulary*> wait() {
    std::unique_lock lock(mutex);
    TRY(begin());
    changed.wait(lock, [this] { return !is_building; });
    if (!vocabulary) return std::unexpected(trouble);
    if (!vocabulary->has_value()) return std::unexpected(vocabulary->error());
    return vocabulary->value().get();
  }

  const Tokenizer& tokenizer;
  const std::vector<TokenId> stop_ids;
  const int vocabulary_size;

  std::mutex mutex;
  std::condition_variable changed;
  std::thread builder;
  bool is_building = false;
  Error trouble;                                      // of the system, when it was last tried
  std::optional<Result<OwnedVocabulary>> vocabulary;  // never changes once it is there
};

Result<OwnedVocabulary> GrammarCompiler::State::build() const {
  try {
    return build_unguarded();
  } catch (const std::exception& error) {
    return fail(Errc::io, fmt::format("the vocabulary for grammars: {}", error.what()));
  }
}

Result<OwnedVocabulary> GrammarCompiler::State::build_unguarded() const {
  const auto size = static_cast<std::size_t>(vocabulary_size);
  std::vector<TextSlice> tokens(size);
  std::vector<std::uint8_t> special(size);
  for (std::size_t i = 0; i < std::min(size, tokenizer.size()); i++) {
    const auto id = static_cast<TokenId>(i);
    tokens[i] = ffi::slice(tokenizer.token_bytes(id));
    special[i] = tokenizer.is_special(id) ? 1 : 0;
  }
  std::vector<std::uint32_t> stops;
  for (const TokenId id : stop_ids) stops.push_back(static_cast<std::uint32_t>(id));
  TextGrammarVocabulary* made = nullptr;
  ffi::Buffer error;
  const TextStatus status =
      text_grammar_vocabulary_new(&tokenizer.ffi(), tokens.data(), special.data(), size,
                                  stops.data(), stops.size(), &made, error.out());
  if (status != TEXT_OK) return ffi::failure(status, error);
#if defined(__GLIBC__)
  malloc_trim(0);  // building takes as much again
#endif
  return OwnedVocabulary(made);
}

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, std::vector<TokenId> stop_ids,
                                 int vocabulary)
    : state_(std::make_unique<State>(tokenizer, std::move(stop_ids), vocabulary)) {}
GrammarCompiler::GrammarCompiler(GrammarCompiler&&) noexcept = default;
GrammarCompiler::~GrammarCompiler() = default;

void GrammarCompiler::prepare() {
  const std::lock_guard lock(state_->mutex);
  // Who waits for it tries again, and is told.
  (void)state_->begin();
}

Result<GrammarMatcher> GrammarCompiler::compile(std::string_view lark) {
  TRY_ASSIGN(const TextGrammarVocabulary* vocabulary, state_->wait());
  TextGrammar* compiled = nullptr;
  ffi::Buffer error;
  const TextStatus status =
      text_grammar_compile(vocabulary, ffi::slice(lark), &compiled, error.out());
  if (status != TEXT_OK) return ffi::failure(status, error);
  auto state = std::make_unique<GrammarMatcher::State>();
  state->grammar.reset(compiled);
  state->mask.resize((static_cast<std::size_t>(state_->vocabulary_size) + 31) / 32);
  return GrammarMatcher(std::move(state));
}

}  // namespace reprise
