// A loaded model: configuration, weights in the kernels' layout, and the identity of both.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/thread_pool.h"
#include "model/family.h"
#include "model/gguf.h"
#include "model/model_config.h"

namespace reprise {

class Model {
 public:
  // Reads the configuration, checks every tensor against it, packs the weights with all threads of
  // `pool`. Errors: corrupt, unsupported, not_found: one line naming the tensor, key or type.
  static Result<Model> load(const GgufFile& file, ThreadPool& pool, const LoadProgress& progress);

  const ModelConfig& config() const { return *config_; }
  const Family& family() const { return *family_; }
  // Hash over tensor names, types, shapes and contents, the configuration and the numeric
  // contract's version: equal for equal weights, whatever the file is called.
  const std::string& fingerprint() const { return fingerprint_; }
  std::size_t weight_bytes() const { return weight_bytes_; }

 private:
  Model() = default;
  std::unique_ptr<const ModelConfig> config_;
  std::unique_ptr<const Family> family_;
  std::string fingerprint_;
  std::size_t weight_bytes_ = 0;
};

}  // namespace reprise
