// The experts of a block, in the forms that files store them.
#include <fmt/core.h>

#include "model/weights.h"

namespace reprise {
namespace {

std::string_view part_name(ExpertPart part) {
  switch (part) {
    case ExpertPart::gate:
      return "gate";
    case ExpertPart::up:
      return "up";
    case ExpertPart::down:
      break;
  }
  return "down";
}

// An expert's panels begin at a 64-byte boundary.
std::size_t padded_bytes(const kernels::PanelMatrix& matrix) {
  const std::size_t bytes = static_cast<std::size_t>(matrix.panel_count()) * matrix.panel_bytes();
  return (bytes + 63) / 64 * 64;
}

}  // namespace

// Gate and up of all experts in one tensor, gate first; down alone. HF's float tensors have no
// ".weight" in their names.
Result<std::vector<WeightLoader::Source>> WeightLoader::fused_slices(const std::string& stem,
                                                                     ExpertPart part,
                                                                     FusedExperts fused,
                                                                     Slice slice) {
  const std::string module = stem + (part == ExpertPart::down ? ".down_proj" : ".gate_up_proj");
  if (part != ExpertPart::down) {
    slice.total = 2 * slice.outputs;
    slice.first = part == ExpertPart::up ? slice.outputs : 0;
  }
  if (checkpoint_->find(module + ".weight") != nullptr) return slices(module, ".weight", slice);
  return fused == FusedExperts::columns ? turned_slices(module, slice) : slices(module, "", slice);
}

Result<std::vector<WeightLoader::Source>> WeightLoader::expert_slices(std::size_t block,
                                                                      ExpertPart part,
                                                                      FusedExperts fused,
                                                                      Slice slice) {
  const std::string_view name = part_name(part);
  const auto there = [&](const std::string& module) {
    return checkpoint_->find(module + ".weight") != nullptr;
  };
  if (is_gguf()) {
    const std::string module = fmt::format("blk.{}.ffn_{}_exps", block, name);
    const std::string both = fmt::format("blk.{}.ffn_gate_up_exps", block);
    if (there(module) || part == ExpertPart::down || !there(both)) {
      return slices(module, ".weight", slice);
    }
    slice.total = 2 * slice.outputs;
    slice.first = part == ExpertPart::up ? slice.outputs : 0;
    return slices(both, ".weight", slice);
  }
  const std::string stem = names_.stored(fmt::format("blk.{}.ffn_exps", block));
  const std::string beside = stem.substr(0, stem.rfind('.'));
  for (const std::string& module :
       {fmt::format("{}.{}_proj", stem, name), fmt::format("{}.switch_glu.{}_proj", stem, name),
        fmt::format("{}.switch_mlp.{}_proj", beside, name)}) {
    if (there(module)) return slices(module, ".weight", slice);
  }
  if (!there(fmt::format("{}.0.{}_proj", stem, name))) {
    return fused_slices(stem, part, fused, slice);
  }
  std::vector<Source> sources;
  Slice one = slice;
  one.count = 0;
  for (int expert = 0; expert < slice.count; expert++) {
    TRY_ASSIGN(const auto source,
               slices(fmt::format("{}.{}.{}_proj", stem, expert, name), ".weight", one));
    sources.push_back(source[0]);
  }
  return sources;
}

Result<ExpertLinear> WeightLoader::experts(std::size_t block, ExpertPart part, FusedExperts fused,
                                           int count, int outputs, int inputs) {
  TRY_ASSIGN(
      const auto sources,
      expert_slices(block, part, fused,
                    {.count = count, .outputs = outputs, .total = outputs, .inputs = inputs}));
  ExpertLinear linear;
  std::size_t bytes = 0;
  for (const Source& source : sources) {
    linear.matrices.push_back(target_of(source.matrix));
    bytes += padded_bytes(linear.matrices.back());
  }
  TRY_ASSIGN(std::uint8_t* panels, packer_.reserve(bytes));
  for (std::size_t expert = 0; expert < sources.size(); expert++) {
    pack(sources[expert], linear.matrices[expert], panels);
    panels += padded_bytes(linear.matrices[expert]);
  }
  packed_bytes_ += bytes;
  expert_bytes_ += bytes;
  return linear;
}

}  // namespace reprise
