// Rotary embedding as model files state it, in every spelling, and the inverse frequencies that
// follow. Only static scaling: what depends on the length of a text would make keys depend on more
// than the tokens before them (law L1), and is refused by name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/model_config.h"
#include "model/settings.h"

namespace reprise {

struct RopeSettings {
  std::string type = "default";  // default, linear, llama3, yarn, proportional
  double theta = 10'000;
  double factor = 1;
  double partial = 1;                            // share of the head that rotates
  double low_frequency = 1, high_frequency = 4;  // llama3
  double original_context = 8192;                // llama3, yarn
  double beta_fast = 32, beta_slow = 1;          // yarn
  double attention_factor = 0;                   // yarn; 0: derived from the next two or the factor
  double mscale = 0, mscale_all_dim = 0;         // yarn
  bool truncate = true;                          // yarn: correction range to whole dimensions
};

// Reads rope_parameters (v5; `layer_type` "full_attention" picks one where they are nested), else
// rope_theta and rope_scaling; in GGUF rope.freq_base and rope.scaling.*.
// Errors: corrupt; unsupported for longrope, dynamic NTK and other length-dependent kinds.
Result<RopeSettings> read_rope_settings(const Settings& settings, std::string_view layer_type,
                                        double default_theta);

// Inverse frequencies of heads of `head_dim`. Source: transformers modeling_rope_utils.py.
// "proportional" rotates the first partial * head_dim / 2 pairs of the whole head; "partial" of the
// others means the head's first dimensions, rotated within themselves.
// Errors: corrupt when the numbers give no even count of dimensions, or angles within the context
// that are no numbers or beyond what kernels::rope_angles takes.
Result<RopeConfig> make_rope(const RopeSettings& rope, int head_dim, kernels::RopeLayout layout,
                             Position context_length);

// Divides by the factors of GGUF's rope_freqs.weight [rotary_dim / 2] when the file has it; a
// factor of 1e20 or more means a pair that does not rotate.
// Errors: corrupt, naming the tensor; of angles as make_rope.
Status apply_rope_factors(const Checkpoint& checkpoint, Position context_length, RopeConfig& rope);

}  // namespace reprise
