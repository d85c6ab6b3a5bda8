// What a model's headers tell before any weight is packed.
#pragma once
#include <string>

#include "base/error.h"
#include "cli/options.h"
#include "model/model_config.h"

namespace reprise {

// Errors: as Checkpoint::open, and what the model's family refuses.
Result<ModelConfig> read_model_config(const std::string& path);

// Loading takes minutes where models are large: a --ctx-size beyond the model's is refused before.
// Errors: invalid_argument. A model that cannot be read is left to who loads it.
Status check_context_length(const Options& options);

}  // namespace reprise
