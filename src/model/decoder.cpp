// The pass from token ids to logits: embed, blocks, final norm, head.
#include "model/decoder.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/math.h"
#include "model/forward.h"

namespace reprise {
namespace {

constexpr int kLogitsOfTask = 1 << 15;  // scaled, capped and checked by one task

}  // namespace

struct Decoder::Workspace : Forward {
  using Forward::Forward;
};

Decoder::Decoder(const Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
                 int rows_max, int logit_rows_max)
    : workspace_(std::make_unique<Workspace>(model, kernels, pool, rows_max, logit_rows_max)) {}

Decoder::~Decoder() = default;

int Decoder::rows_max() const {
  return workspace_->rows_max();
}
int Decoder::logit_rows_max() const {
  return workspace_->logit_rows_max();
}

std::span<const float> Decoder::forward(std::span<BatchEntry> entries) {
  return workspace_->run(entries);
}

std::span<const float> Forward::run(std::span<BatchEntry> entries) {
  entries_ = entries;
  lay_out_rows(entries);
  embed();
  model_->family().begin(*this);
  for (int layer = 0; layer < static_cast<int>(config_->layers.size()); layer++) {
    model_->family().run_layer(layer, *this);
  }
  return compute_logits();
}

void Forward::lay_out_rows(std::span<BatchEntry> entries) {
  entry_rows_.clear();
  row_info_.clear();
  for (std::size_t entry = 0; entry < entries.size(); entry++) {
    entry_rows_.push_back(
        {static_cast<int>(row_info_.size()), static_cast<int>(entries[entry].tokens.size())});
    entries[entry].finite_rows = static_cast<int>(entries[entry].tokens.size());
    const Position offset = entries[entry].cache->offset();
    for (std::size_t i = 0; i < entries[entry].tokens.size(); i++) {
      row_info_.push_back(
          {static_cast<int>(entry), entries[entry].tokens[i], offset + static_cast<Position>(i)});
    }
  }
  rows_ = static_cast<int>(row_info_.size());
  CHECK(rows_ <= rows_max_);
  finite_.assign(static_cast<std::size_t>(rows_), 1);
}

void Forward::embed() {
  for_each_row([&](int row) {
    DCHECK(token(row) >= 0 && token(row) < config_->vocabulary);
    kernels::unpack_row(model_->family().embedding.matrix, token(row), hidden(row));
    if (config_->embedding_scale != 1)
      scale(hidden(row), config_->embedding_scale, config_->hidden);
    for (std::size_t rope = 0; rope < config_->ropes.size(); rope++) {
      kernels::rope_angles(position(row), config_->ropes[rope].inverse_frequencies,
                           config_->ropes[rope].scale, cosines_[rope].row(row),
                           sines_[rope].row(row));
    }
  });
}

// The row's entry is finite up to it, at most.
void Forward::end_finite_rows(std::size_t row) {
  BatchEntry& entry = entries_[static_cast<std::size_t>(row_info_[row].entry)];
  const auto rows_before = static_cast<int>(row_info_[row].position - entry.cache->offset());
  entry.finite_rows = std::min(entry.finite_rows, rows_before);
}

// Nothing reads what layers make of rows whose logits nobody wants once the last keys and values
// are stored: only the wanted rows go on. They move to the front of the buffers that live on.
void Forward::keep_wanted_rows() {
  for (std::size_t row = 0; row < finite_.size(); row++) {
    if (finite_[row] == 0) end_finite_rows(row);
  }
  int kept = 0;
  for (std::size_t entry = 0; entry < entries_.size(); entry++) {
    const EntryRows rows = entry_rows_[entry];
    const int wanted = entries_[entry].logit_rows;
    DCHECK(wanted <= rows.count);
    entry_rows_[entry] = {kept, wanted};
    for (int row = rows.first + rows.count - wanted; row < rows.first + rows.count; row++, kept++) {
      if (row == kept) continue;
      for (const RowBuffer* buffer : {&hidden_, &query_, &attention_gate_, &layer_inputs_}) {
        std::copy_n(buffer->row(row), buffer->columns(), buffer->row(kept));
      }
      for (std::size_t rope = 0; rope < cosines_.size(); rope++) {
        std::copy_n(cosines_[rope].row(row), cosines_[rope].columns(), cosines_[rope].row(kept));
        std::copy_n(sines_[rope].row(row), sines_[rope].columns(), sines_[rope].row(kept));
      }
      row_info_[static_cast<std::size_t>(kept)] = row_info_[static_cast<std::size_t>(row)];
    }
  }
  rows_ = kept;
  CHECK(rows_ <= logit_rows_max_);
}

std::span<const float> Forward::compute_logits() {
  const int wanted = rows_;
  if (wanted == 0) return {};
  const auto prepare = [&](int row) {
    norm(hidden(row), model_->family().final_norm, normed(row));
  };
  project(normed_, config_->hidden, prepare, {{&model_->family().head(), &logits_}});
  // Parts of a row are tasks: one sequence alone has one row.
  const int parts = (config_->vocabulary + kLogitsOfTask - 1) / kLogitsOfTask;
  std::vector<std::uint8_t> finite(static_cast<std::size_t>(wanted * parts));
  pool_->parallel_for(wanted * parts, [&](int task, int) {
    const int first = task % parts * kLogitsOfTask;
    const int count = std::min(kLogitsOfTask, config_->vocabulary - first);
    float* logits = logits_.row(task / parts) + first;
    const auto size = static_cast<std::size_t>(count);
    if (config_->logit_scale != 1) scale(logits, config_->logit_scale, count);
    if (config_->final_softcap > 0) kernels_->softcap(logits, config_->final_softcap, size);
    finite[static_cast<std::size_t>(task)] = kernels_->all_finite(logits, size) ? 1 : 0;
  });
  for (std::size_t task = 0; task < finite.size(); task++) {
    if (finite[task] == 0) end_finite_rows(task / static_cast<std::size_t>(parts));
  }
  for (int row = 0; row < wanted; row++) {
    for (const TokenId id : config_->suppressed) logits_.row(row)[id] = -HUGE_VALF;
  }
  const auto vocabulary = static_cast<std::size_t>(config_->vocabulary);
  return {logits_.row(0), static_cast<std::size_t>(wanted) * vocabulary};
}

}  // namespace reprise
