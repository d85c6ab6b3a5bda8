// Mixture of experts: which experts a row takes, and the pass of all rows through them.
#pragma once
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/model_config.h"
#include "model/row_buffer.h"
#include "model/weights.h"

namespace reprise {

// One expert of one row. Its input is x * input_factor; its output counts `weight` times.
struct ExpertChoice {
  int expert = 0;
  float weight = 1;
  float input_factor = 1;
};

struct ExpertWeights {
  ExpertLinear gate, up, down;
};

// The kernel of act(gate) * up.
using ActivationKernel = void (*)(float* gate, const float* up, std::size_t count);
ActivationKernel activation_kernel(const kernels::KernelTable& kernels, Activation activation);

// Takes the chosen.size() experts with the highest scores (the lowest id among equals), ascending
// by id. A NaN never wins over a number. Weights and factors are left alone.
void choose_experts(std::span<const float> scores, std::span<ExpertChoice> chosen);
// Softmax of `logits` in place, sums in ascending order. Source: own exp, double.
void softmax(std::span<float> logits);
// Divides the weights by (their sum + epsilon).
void normalise_weights(std::span<ExpertChoice> chosen, float epsilon);

// Buffers and work of the pass. Rows are grouped by expert, each row's numbers depend on the row
// alone; a row's outputs are added in ascending expert id.
class ExpertPass {
 public:
  ExpertPass(const ModelConfig& config, const kernels::KernelTable& kernels, ThreadPool& pool,
             int rows_max, std::span<std::uint8_t* const> scratch);

  // The choices of a row, `used` of them, to be filled by the family.
  std::span<ExpertChoice> choices(int row) {
    return std::span(choices_).subspan(static_cast<std::size_t>(row * config_.used),
                                       static_cast<std::size_t>(config_.used));
  }
  // out(row) = sum over the row's experts of weight * down(act(gate(x)) * up(x)), x = the row of
  // `input` [hidden] times input_factor.
  void run(const ExpertWeights& weights, Activation activation, const RowBuffer& input,
           const RowBuffer& out, int rows);

 private:
  struct Slot {
    int row = 0;
    ExpertChoice choice;
  };
  struct Piece {  // tiles or panels of one expert
    int expert = 0;
    int begin = 0, end = 0;
    int product = 0;
  };

  void group_rows(int rows, int experts);
  void multiply(const std::vector<const ExpertLinear*>& products,
                const std::vector<const RowBuffer*>& outs);
  template <class Run>
  void for_each_tile(Run&& run);
  int rows_of(int expert) const {
    return first_slot_[static_cast<std::size_t>(expert) + 1] -
           first_slot_[static_cast<std::size_t>(expert)];
  }
  std::uint8_t* activations(kernels::ActivationFormat format, int columns, int expert) const;

  ExpertConfig config_;
  int hidden_;
  const kernels::KernelTable* kernels_;
  ThreadPool* pool_;
  std::vector<std::uint8_t*> scratch_;  // per worker
  std::vector<ExpertChoice> choices_;   // [rows][used]
  std::vector<Slot> slots_;             // by expert, then row
  std::vector<int> first_slot_;         // per expert, and the end
  std::vector<int> row_slots_;          // [rows][used]: the row's slots, ascending by expert
  std::vector<Piece> pieces_;
  RowBuffer input_, gate_, up_, out_;
  MemoryBlock activations_[kernels::kActivationFormats];
};

}  // namespace reprise
