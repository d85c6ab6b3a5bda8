// Llama (1 to 3.x, SmolLM2 and others of the shape): pre-norm blocks, SwiGLU, full attention.
// Source: transformers modeling_llama.py; GGUF files interleave the rows of q and k for interleaved
// RoPE.
#include <fmt/core.h>

#include "model/common_config.h"
#include "model/pre_norm_decoder.h"

namespace reprise {
namespace {

Result<ModelConfig> read_config(const Settings& settings) {
  constexpr SettingName kExperts = {"expert_count", "num_local_experts"};
  TRY_ASSIGN(const int experts, settings.integer_or(kExperts, 0, 0, 1 << 16));
  if (experts > 0) {
    return fail(Errc::unsupported,
                fmt::format("key {}: got {}, mixture-of-experts Llama files are not supported",
                            settings.spelled(kExperts), experts),
                settings.spelled(kExperts));
  }
  return read_pre_norm_config(settings, "llama", kernels::RopeLayout::interleaved, 10'000);
}

Result<std::unique_ptr<Family>> bind(const ModelConfig& config, WeightLoader& loader) {
  return PreNormDecoder::bind(config, loader, {});
}

}  // namespace

const FamilyEntry kLlamaFamily = {"llama", "llama", {"llama"}, {}, read_config, bind};

}  // namespace reprise
