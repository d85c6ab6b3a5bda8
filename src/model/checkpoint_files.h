// Which files make up a model: split names, the safetensors index, what lies in a folder.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace reprise {

// "model-00002-of-00003.gguf" with extension ".gguf": {"model", 2, 3}. Source: what gguf-split and
// the Hugging Face writers name their parts.
struct SplitName {
  std::string stem;
  int number = 0;  // from 1
  int count = 0;
};
// nullopt for any other name; the number is not checked against the count.
std::optional<SplitName> parse_split_name(std::string_view file_name, std::string_view extension);
std::string split_file_name(const SplitName& name, int number, std::string_view extension);

// model.safetensors.index.json: where each tensor lies.
struct SafetensorsIndex {
  std::map<std::string, std::string> file_of_tensor;
  std::vector<std::string> files;  // each once, sorted; plain file names
};
// Errors: corrupt, naming the tensor or the key.
Result<SafetensorsIndex> parse_safetensors_index(std::string_view json);

// The files to open, in order. For GGUF: one file, or all parts of a split set.
struct CheckpointFiles {
  bool is_gguf = false;
  std::filesystem::path folder;
  std::vector<std::filesystem::path> paths;
  std::optional<SafetensorsIndex> index;  // when the folder has one
};
// Errors: not_found, io; invalid_argument when `path` does not lead to exactly one model.
Result<CheckpointFiles> find_checkpoint_files(const std::filesystem::path& path);

}  // namespace reprise
