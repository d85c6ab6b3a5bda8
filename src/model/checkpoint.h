// A model's files as one list of tensors, whatever their format: GGUF (whole or split) or a folder
// with config.json and safetensors. Immutable after opening: any thread may read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "kernels/weight_type.h"
#include "model/gguf.h"

namespace reprise {

struct CheckpointFiles;

enum class CheckpointFormat : std::uint8_t { gguf, safetensors };

// One tensor as the files hold it; every view lives as long as its Checkpoint, moves included.
struct StoredTensor {
  std::string_view name;            // the file's own name
  std::vector<std::int64_t> shape;  // row-major, outermost first: [out, in], [experts, out, in]
  std::string_view type_name;       // as the format spells it: "Q4_K", "BF16", "U32"
  std::optional<kernels::WeightType> type;  // nullopt: integers and what the kernels do not have
  std::span<const std::byte> bytes;         // not aligned; empty for GGUF types without `type`
  int file = 0;                             // which of the checkpoint's files
  std::size_t offset = 0;                   // of bytes in that file
};

class Checkpoint {
 public:
  // `path` is a .gguf file (of a split set any one part: all are opened), a folder with config.json
  // and safetensors, one of those files beside its config.json (then the folder is meant), or a
  // folder that holds exactly one GGUF model.
  // Errors: not_found, io; invalid_argument when it is not one model; corrupt and unsupported, in
  // one line that names the file and the tensor or key.
  static Result<Checkpoint> open(const std::filesystem::path& path);
  // One whole GGUF file whose bytes outlive the object (tests).
  static Result<Checkpoint> from_gguf_bytes(std::span<const std::byte> bytes);

  CheckpointFormat format() const;
  const GgufFile* gguf() const;      // the (first) GGUF file, for its metadata; or null
  const JsonObject* config() const;  // config.json as read; null for GGUF
  // Where tokenizer.json and its like may lie; empty when the checkpoint came as bytes.
  const std::filesystem::path& folder() const { return folder_; }

  // File after file, each in its own order; names are unique.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;

  // The mapped file that holds the tensor's bytes; null when the checkpoint came as bytes.
  const MappedFile* file(const StoredTensor& tensor) const;

 private:
  Checkpoint() = default;
  static Result<Checkpoint> open_gguf(const CheckpointFiles& files);
  static Result<Checkpoint> open_safetensors(const CheckpointFiles& files);
  // `path` is for messages; empty when there is none.
  Status add_gguf(GgufFile file, const std::filesystem::path& path);
  Status add_safetensors(SafetensorsFile file, const std::filesystem::path& path);
  Status add_tensor(StoredTensor tensor, const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::optional<JsonObject> config_;
  std::vector<GgufFile> gguf_;
  std::vector<SafetensorsFile> safetensors_;
  std::set<std::string> type_names_;  // a node's text stays where it is
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

}  // namespace reprise
