// One pass over the tokens for each new string.
#include "api/sequence_breakers.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace reprise {
namespace {

// A string may be in most of the tokens: so many lists of a 262k vocabulary are 16 MiB at most.
constexpr std::size_t kKnownMax = 16;

}  // namespace

SequenceBreakers::SequenceBreakers(const Tokenizer& tokenizer, int vocabulary)
    : tokenizer_(&tokenizer),
      end_(static_cast<TokenId>(
          std::min<std::size_t>(tokenizer.size(), static_cast<std::size_t>(vocabulary)))) {}

std::vector<TokenId> SequenceBreakers::find(std::span<const std::string> texts) const {
  const std::lock_guard lock(mutex_);
  std::vector<TokenId> found;
  for (const std::string& text : texts) {
    const std::vector<TokenId>& ids = find_one(text);
    std::vector<TokenId> both;
    both.reserve(found.size() + ids.size());
    std::ranges::set_union(found, ids, std::back_inserter(both));
    found = std::move(both);
  }
  return found;
}

const std::vector<TokenId>& SequenceBreakers::find_one(const std::string& text) const {
  const auto known = std::ranges::find(known_, text, &Known::text);
  if (known != known_.end()) return known->ids;
  if (known_.size() == kKnownMax) known_.pop_front();
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < end_; ++id) {
    if (tokenizer_->token_bytes(id).find(text) != std::string_view::npos) ids.push_back(id);
  }
  return known_.emplace_back(text, std::move(ids)).ids;
}

}  // namespace reprise
