// Headers only.
#include "cli/model_headers.h"

#include <fmt/core.h>

#include "model/checkpoint.h"
#include "model/family.h"

namespace reprise {

Result<ModelConfig> read_model_config(const std::string& path) {
  TRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  TRY_ASSIGN(const Settings settings, Settings::read(checkpoint));
  TRY_ASSIGN(const FamilyEntry* family, find_family(settings));
  return family->read_config(settings);
}

Status check_context_length(const Options& options) {
  if (options.context_length == 0 || options.model.empty()) return {};
  const Result<ModelConfig> config = read_model_config(options.model);
  if (!config || options.context_length <= config->context_length) return {};
  return fail(Errc::invalid_argument,
              fmt::format("got {}, but the model was trained for {} tokens", options.context_length,
                          config->context_length),
              "--ctx-size");
}

}  // namespace reprise
