// Rows through their experts, grouped so that each expert's weights are read once.
#include "model/experts.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/math.h"

namespace reprise {
namespace {

// Weight bytes of one multiplication task.
constexpr std::size_t kTaskBytes = std::size_t{96} << 10;

int tiles_of(int rows) {
  return (rows + kernels::kTileRows - 1) / kernels::kTileRows;
}

bool wins(float score, float than) {
  return score > than || (std::isnan(than) && !std::isnan(score));
}

}  // namespace

ActivationKernel activation_kernel(const kernels::KernelTable& kernels, Activation activation) {
  switch (activation) {
    case Activation::gelu_tanh:
      return kernels.gelu_tanh_multiply;
    case Activation::gelu:
      return kernels.gelu_multiply;
    default:
      return kernels.silu_multiply;
  }
}

void choose_experts(std::span<const float> scores, std::span<ExpertChoice> chosen) {
  CHECK(chosen.size() <= scores.size());
  std::size_t count = 0;
  for (std::size_t id = 0; id < scores.size(); id++) {
    // Where the score stands among those taken so far: behind its equals, which have lower ids.
    std::size_t place = count;
    while (place > 0 &&
           wins(scores[id], scores[static_cast<std::size_t>(chosen[place - 1].expert)])) {
      place--;
    }
    if (place == chosen.size()) continue;
    count = std::min(count + 1, chosen.size());
    for (std::size_t i = count - 1; i > place; i--) chosen[i].expert = chosen[i - 1].expert;
    chosen[place].expert = static_cast<int>(id);
  }
  std::ranges::sort(chosen, {}, &ExpertChoice::expert);
}

void softmax(std::span<float> logits) {
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  std::vector<double> powers;
  for (const float logit : logits) {
    powers.push_back(kernels::exp_f64(static_cast<double>(logit) - static_cast<double>(largest)));
    sum += powers.back();
  }
  for (std::size_t i = 0; i < logits.size(); i++) {
    logits[i] = static_cast<float>(powers[i] / sum);
  }
}

void normalise_weights(std::span<ExpertChoice> chosen, float epsilon) {
  float sum = 0;
  for (const ExpertChoice& choice : chosen) sum += choice.weight;
  for (ExpertChoice& choice : chosen) choice.weight /= sum + epsilon;
}

ExpertPass::ExpertPass(const ModelConfig& config, const kernels::KernelTable& kernels,
                       ThreadPool& pool, int rows_max, std::span<std::uint8_t* const> scratch)
    : config_(config.experts),
      hidden_(config.hidden),
      kernels_(&kernels),
      pool_(&pool),
      scratch_(scratch.begin(), scratch.end()) {
  const int slots = rows_max * config_.used;
  choices_.resize(static_cast<std::size_t>(slots));
  slots_.resize(static_cast<std::size_t>(slots));
  row_slots_.resize(static_cast<std::size_t>(slots));
  first_slot_.resize(static_cast<std::size_t>(config_.count) + 1);
  input_ = RowBuffer(slots, hidden_);
  out_ = RowBuffer(slots, hidden_);
  gate_ = RowBuffer(slots, config_.feed_forward);
  up_ = RowBuffer(slots, config_.feed_forward);
  const int columns = (std::max(hidden_, config_.feed_forward) + 255) / 256 * 256;
  for (int format = 0; format < kernels::kActivationFormats; format++) {
    // Each expert's part begins at a 64-byte boundary.
    activations_[format] = MemoryBlock(
        kernels::activation_bytes(static_cast<kernels::ActivationFormat>(format), slots, columns) +
        64 * static_cast<std::size_t>(config_.count));
  }
}

void ExpertPass::group_rows(int rows, int experts) {
  std::ranges::fill(first_slot_, 0);
  const int total = rows * config_.used;
  for (int i = 0; i < total; i++) {
    const int expert = choices_[static_cast<std::size_t>(i)].expert;
    CHECK(expert >= 0 && expert < experts);
    first_slot_[static_cast<std::size_t>(expert) + 1]++;
  }
  for (std::size_t e = 1; e < first_slot_.size(); e++) first_slot_[e] += first_slot_[e - 1];
  std::vector<int> next(first_slot_.begin(), first_slot_.end() - 1);
  for (int i = 0; i < total; i++) {
    const ExpertChoice& choice = choices_[static_cast<std::size_t>(i)];
    const int slot = next[static_cast<std::size_t>(choice.expert)]++;
    slots_[static_cast<std::size_t>(slot)] = {i / config_.used, choice};
    row_slots_[static_cast<std::size_t>(i)] = slot;
  }
}

// Calls run(expert, tile) for all tiles of all experts that have rows.
template <class Run>
void ExpertPass::for_each_tile(Run&& run) {
  pieces_.clear();
  for (int expert = 0; expert < config_.count; expert++) {
    for (int tile = 0; tile < tiles_of(rows_of(expert)); tile++) {
      pieces_.push_back({expert, tile, tile + 1});
    }
  }
  pool_->parallel_for(static_cast<int>(pieces_.size()), [&](int task, int) {
    const Piece& piece = pieces_[static_cast<std::size_t>(task)];
    run(piece.expert, piece.begin);
  });
}

std::uint8_t* ExpertPass::activations(kernels::ActivationFormat format, int columns,
                                      int expert) const {
  const int first = first_slot_[static_cast<std::size_t>(expert)];
  return activations_[static_cast<std::size_t>(format)].data() +
         kernels::activation_bytes(format, first, columns) + 64 * static_cast<std::size_t>(expert);
}

void ExpertPass::multiply(const std::vector<const ExpertLinear*>& products,
                          const std::vector<const RowBuffer*>& outs) {
  pieces_.clear();
  for (int expert = 0; expert < config_.count; expert++) {
    if (rows_of(expert) == 0) continue;
    for (std::size_t p = 0; p < products.size(); p++) {
      const kernels::PanelMatrix& matrix = products[p]->matrices[static_cast<std::size_t>(expert)];
      const int step = std::max(1, static_cast<int>(kTaskBytes / matrix.panel_bytes()));
      for (int begin = 0; begin < matrix.panel_count(); begin += step) {
        pieces_.push_back(
            {expert, begin, std::min(matrix.panel_count(), begin + step), static_cast<int>(p)});
      }
    }
  }
  pool_->parallel_for(static_cast<int>(pieces_.size()), [&](int task, int worker) {
    const Piece& piece = pieces_[static_cast<std::size_t>(task)];
    const auto product = static_cast<std::size_t>(piece.product);
    const kernels::PanelMatrix& matrix =
        products[product]->matrices[static_cast<std::size_t>(piece.expert)];
    const RowBuffer& out = *outs[product];
    kernels_->matmul(matrix, activations(matrix.activations(), matrix.columns, piece.expert),
                     rows_of(piece.expert), piece.begin, piece.end,
                     out.row(first_slot_[static_cast<std::size_t>(piece.expert)]),
                     static_cast<std::size_t>(out.columns()),
                     scratch_[static_cast<std::size_t>(worker)]);
  });
}

void ExpertPass::run(const ExpertWeights& weights, Activation activation, const RowBuffer& input,
                     const RowBuffer& out, int rows) {
  group_rows(rows, static_cast<int>(weights.gate.matrices.size()));
  const auto hidden = static_cast<std::size_t>(hidden_);
  const auto width = static_cast<std::size_t>(config_.feed_forward);
  const auto convert = [&](const ExpertLinear& product, const RowBuffer& x, int expert, int tile) {
    const kernels::PanelMatrix& matrix = product.matrices[static_cast<std::size_t>(expert)];
    kernels_->make_activations(
        matrix.activations(), x.row(first_slot_[static_cast<std::size_t>(expert)]),
        static_cast<std::size_t>(x.columns()), rows_of(expert), matrix.columns, tile, tile + 1,
        activations(matrix.activations(), matrix.columns, expert));
  };
  const auto slots_of = [&](int expert, int tile) {
    const int first = first_slot_[static_cast<std::size_t>(expert)];
    const int begin = first + tile * kernels::kTileRows;
    return std::pair(begin, std::min(begin + kernels::kTileRows, first + rows_of(expert)));
  };
  for_each_tile([&](int expert, int tile) {
    const auto [begin, end] = slots_of(expert, tile);
    for (int slot = begin; slot < end; slot++) {
      const Slot& from = slots_[static_cast<std::size_t>(slot)];
      std::copy_n(input.row(from.row), hidden, input_.row(slot));
      if (from.choice.input_factor != 1) {
        kernels_->scale(input_.row(slot), from.choice.input_factor, hidden);
      }
    }
    convert(weights.gate, input_, expert, tile);
    const auto e = static_cast<std::size_t>(expert);
    if (weights.up.matrices[e].activations() != weights.gate.matrices[e].activations()) {
      convert(weights.up, input_, expert, tile);
    }
  });
  multiply({&weights.gate, &weights.up}, {&gate_, &up_});
  const ActivationKernel activate = activation_kernel(*kernels_, activation);
  for_each_tile([&](int expert, int tile) {
    const auto [begin, end] = slots_of(expert, tile);
    for (int slot = begin; slot < end; slot++) {
      activate(gate_.row(slot), up_.row(slot), width);
    }
    convert(weights.down, gate_, expert, tile);
  });
  multiply({&weights.down}, {&out_});
  pool_->parallel_for(rows, [&](int row, int) {
    std::fill_n(out.row(row), hidden, 0.0F);
    for (int i = 0; i < config_.used; i++) {
      const int slot = row_slots_[static_cast<std::size_t>(row * config_.used + i)];
      kernels_->add_scaled(out.row(row), out_.row(slot),
                           slots_[static_cast<std::size_t>(slot)].choice.weight, hidden);
    }
  });
}

}  // namespace reprise
