// One forward of everything, then the walk over the reply's rows: sample, stop or go on.
#include "graph/cold_model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "kernels/kernels.h"

namespace reprise::testing {

ColdModel::ColdModel(const Model& model, ThreadPool& threads, kernels::KvType kv_type,
                     int length_max)
    : pages_(model.config().kv_layout(kv_type), std::size_t{256} << 20),
      vocabulary_(static_cast<std::size_t>(model.config().vocabulary)),
      decoder_(model, *kernels::choose_kernels("").value(), threads, length_max, length_max),
      sampler_(*kernels::choose_kernels("").value()) {}

const ColdModel::Rows& ColdModel::forward(std::vector<TokenId> tokens) {
  for (const Rows& rows : forwarded_) {
    const auto ends = std::ranges::mismatch(tokens, rows.tokens);
    if (ends.in1 == tokens.end()) return rows;
  }
  SequenceCache cache(pages_);
  CHECK(cache.reserve(static_cast<Position>(tokens.size())));
  BatchEntry entry{&cache, tokens, static_cast<int>(tokens.size())};
  const std::span<const float> logits = decoder_.forward({&entry, 1});
  CHECK(entry.is_finite());
  forwarded_.push_back({std::move(tokens), {logits.begin(), logits.end()}});
  return forwarded_.back();
}

Answer ColdModel::answer(const GraphRequest& request, std::span<const TokenId> guide) {
  std::vector<TokenId> tokens = request.prompt;
  tokens.insert(tokens.end(), guide.begin(), guide.end());
  const std::span<const float> logits = forward(tokens).logits;

  Answer answer;
  for (std::size_t row = 0; row <= guide.size(); row++) {
    const std::size_t position = request.prompt.size() + row;
    SamplingPlace place{.choice = request.choice,
                        .position = static_cast<Position>(position),
                        .tokens = std::span(tokens).first(position),
                        .prompt_length = static_cast<Position>(request.prompt.size()),
                        .banned = request.banned_ids};
    if (static_cast<Position>(row) < request.min_tokens) place.banned_stops = request.stop_ids;
    const std::optional<SampledToken> sampled =
        sampler_.sample(logits.subspan((position - 1) * vocabulary_, vocabulary_), request.sampling,
                        place, request.top_logprobs);
    if (!sampled) {
      answer.reason = FinishReason::stop;
      return answer;
    }
    const SampledToken& token = *sampled;
    if (std::ranges::find(request.stop_ids, token.id) != request.stop_ids.end()) {
      answer.reason = FinishReason::stop;
      return answer;
    }
    answer.add(token);
    if (request.stops_text(token.id)) {
      answer.reason = FinishReason::stop;
    } else if (static_cast<Position>(answer.ids.size()) == request.max_tokens) {
      answer.reason = FinishReason::length;
    }
    if (answer.reason || row == guide.size() || token.id != guide[row]) return answer;
  }
  return answer;
}

}  // namespace reprise::testing
