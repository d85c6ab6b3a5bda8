// Checkpoints: files opened, their tensors brought into one list, checked against each other.
#include "model/checkpoint.h"

#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/file.h"
#include "base/printable.h"
#include "model/checkpoint_files.h"

namespace reprise {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kConfigBytesMax = std::uint64_t{16} << 20;

std::unexpected<Error> tensor_error(std::string_view name, const std::string& where,
                                    const std::string& what) {
  const std::string shown = printable(name);
  return fail(Errc::corrupt, fmt::format("{}tensor '{}': {}", where, shown, what), shown);
}

// The float types of safetensors that the kernels multiply with as they are.
std::optional<kernels::WeightType> float_type(std::string_view dtype) {
  if (dtype == "F32") return kernels::WeightType::f32;
  if (dtype == "F16") return kernels::WeightType::f16;
  if (dtype == "BF16") return kernels::WeightType::bf16;
  return std::nullopt;
}

Result<JsonObject> read_config(const fs::path& path) {
  TRY_ASSIGN(const std::string text, read_file(path, kConfigBytesMax));
  Result<JsonValue> value = parse_json(text);
  if (!value) {
    return fail(Errc::corrupt,
                fmt::format("{}: {}", path.string(), printable(value.error().message, 200)));
  }
  if (!value->is_object()) {
    return fail(Errc::corrupt,
                fmt::format("{}: {}, expected a JSON object", path.string(),
                            value->is_array() ? "an array" : printable(to_json(*value))));
  }
  return std::move(value->get_object());
}

// What a part says of the set it belongs to, against what is there. `number` counts from 1.
Status check_split_key(const GgufFile& file, const std::string& where, const char* key,
                       std::int64_t expected) {
  TRY_ASSIGN(const std::optional<std::int64_t> stated, file.integer(key));
  if (stated == expected) return {};
  return fail(Errc::corrupt,
              fmt::format("{}metadata key '{}': {}, expected {}", where, key,
                          stated ? fmt::format("{}", *stated) : "absent", expected),
              key);
}

Status check_split_part(const GgufFile& file, const fs::path& path, std::size_t number,
                        std::size_t count) {
  const std::string where = path.empty() ? "" : path.string() + ": ";
  if (count > 1) {
    TRY(check_split_key(file, where, "split.count", static_cast<std::int64_t>(count)));
    return check_split_key(file, where, "split.no", static_cast<std::int64_t>(number - 1));
  }
  TRY_ASSIGN(const std::optional<std::int64_t> stated, file.integer("split.count"));
  if (!stated || *stated <= 1) return {};
  return fail(Errc::invalid_argument,
              fmt::format("{}1 part of a model split into {}, expected all of them, named "
                          "<name>-00001-of-{:05}.gguf and so on",
                          where, *stated, *stated),
              "split.count");
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const fs::path& path) {
  TRY_ASSIGN(const CheckpointFiles files, find_checkpoint_files(path));
  if (files.is_gguf) return open_gguf(files);
  return open_safetensors(files);
}

Result<Checkpoint> Checkpoint::from_gguf_bytes(std::span<const std::byte> bytes) {
  Checkpoint checkpoint;
  TRY_ASSIGN(GgufFile file, GgufFile::parse(bytes));
  TRY(check_split_part(file, {}, 1, 1));
  TRY(checkpoint.add_gguf(std::move(file), {}));
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_gguf(const CheckpointFiles& files) {
  Checkpoint checkpoint;
  checkpoint.folder_ = files.folder;
  for (std::size_t i = 0; i < files.paths.size(); i++) {
    TRY_ASSIGN(GgufFile file, GgufFile::open(files.paths[i]));
    TRY(check_split_part(file, files.paths[i], i + 1, files.paths.size()));
    TRY(checkpoint.add_gguf(std::move(file), files.paths[i]));
  }
  if (files.paths.size() > 1) {
    TRY(check_split_key(checkpoint.gguf_.front(), files.paths.front().string() + ": ",
                        "split.tensors.count",
                        static_cast<std::int64_t>(checkpoint.tensors_.size())));
  }
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_safetensors(const CheckpointFiles& files) {
  Checkpoint checkpoint;
  checkpoint.folder_ = files.folder;
  TRY_ASSIGN(checkpoint.config_, read_config(files.folder / "config.json"));
  for (const fs::path& path : files.paths) {
    TRY_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
    TRY(checkpoint.add_safetensors(std::move(file), path));
  }
  if (!files.index) return checkpoint;
  // A tensor that the index does not name may stay: families take tensors by name.
  for (const auto& [name, file] : files.index->file_of_tensor) {
    const StoredTensor* tensor = checkpoint.find(name);
    const std::string where =
        tensor == nullptr
            ? "in no file"
            : "in " + files.paths[static_cast<std::size_t>(tensor->file)].filename().string();
    if (tensor == nullptr || where.substr(3) != file) {
      return tensor_error(name, files.folder.string() + ": ",
                          fmt::format("{}, expected in {} as the index says", where, file));
    }
  }
  return checkpoint;
}

Status Checkpoint::add_gguf(GgufFile file, const fs::path& path) {
  gguf_.push_back(std::move(file));
  for (const GgufTensor& tensor : gguf_.back().tensors()) {
    StoredTensor stored;
    stored.name = tensor.name;
    stored.shape.assign(tensor.dims.rbegin(), tensor.dims.rend());
    stored.type_name = *type_names_.insert(ggml_type_name(tensor.type_id)).first;
    stored.type = tensor.type;
    stored.bytes = tensor.bytes;
    stored.file = static_cast<int>(gguf_.size()) - 1;
    stored.offset = tensor.offset;
    TRY(add_tensor(std::move(stored), path));
  }
  return {};
}

Status Checkpoint::add_safetensors(SafetensorsFile file, const fs::path& path) {
  safetensors_.push_back(std::move(file));
  for (const SafetensorsEntry& entry : safetensors_.back().entries()) {
    StoredTensor stored;
    stored.name = entry.name;
    stored.shape = entry.shape;
    stored.type_name = entry.dtype;
    stored.type = float_type(entry.dtype);
    stored.bytes = entry.bytes;
    stored.file = static_cast<int>(safetensors_.size()) - 1;
    stored.offset = entry.offset;
    TRY(add_tensor(std::move(stored), path));
  }
  return {};
}

Status Checkpoint::add_tensor(StoredTensor tensor, const fs::path& path) {
  if (const auto [found, added] = index_.emplace(tensor.name, tensors_.size()); !added) {
    const std::string where = path.empty() ? "" : path.string() + ": ";
    return tensor_error(tensor.name, where,
                        fmt::format("is there twice (files {} and {} of the model), expected once",
                                    tensors_[found->second].file + 1, tensor.file + 1));
  }
  tensors_.push_back(std::move(tensor));
  return {};
}

CheckpointFormat Checkpoint::format() const {
  return gguf_.empty() ? CheckpointFormat::safetensors : CheckpointFormat::gguf;
}

const GgufFile* Checkpoint::gguf() const {
  return gguf_.empty() ? nullptr : &gguf_.front();
}

const JsonObject* Checkpoint::config() const {
  return config_ ? &*config_ : nullptr;
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const MappedFile* Checkpoint::file(const StoredTensor& tensor) const {
  const auto file = static_cast<std::size_t>(tensor.file);
  return gguf_.empty() ? safetensors_[file].file() : gguf_[file].file();
}

}  // namespace reprise
