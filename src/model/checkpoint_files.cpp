// From a path to the files of one model: what the user named, and what lies in a folder.
#include "model/checkpoint_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "base/file.h"

namespace reprise {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kGgufExtension = ".gguf";
constexpr std::string_view kSafetensorsExtension = ".safetensors";
constexpr std::uint64_t kIndexBytesMax = 100'000'000;
constexpr std::size_t kNamesShownMax = 4;

// What a folder holds that could be a model; names sorted.
struct FolderContent {
  bool has_config = false;
  bool has_index = false;
  std::vector<std::string> safetensors;  // model*.safetensors
  std::vector<std::string> other_safetensors;
  std::vector<std::string> gguf;     // of a split set every part that is there
  std::vector<std::string> pickled;  // PyTorch's own format
};

bool is_pickled(std::string_view name) {
  return name.ends_with(".pth") || name.ends_with(".pt") ||
         (name.starts_with("pytorch_model") && name.ends_with(".bin"));
}

// Vision projectors of multimodal models lie beside them as GGUF files of their own.
bool is_projector(std::string_view name) {
  return name.find("mmproj") != name.npos;
}

void note_file(const std::string& name, FolderContent& content) {
  const std::string_view view = name;
  if (view == kConfigName) {
    content.has_config = true;
  } else if (view == kIndexName) {
    content.has_index = true;
  } else if (view.ends_with(kSafetensorsExtension)) {
    (view.starts_with("model") ? content.safetensors : content.other_safetensors).push_back(name);
  } else if (view.ends_with(kGgufExtension) && !is_projector(view)) {
    content.gguf.push_back(name);
  } else if (is_pickled(view)) {
    content.pickled.push_back(name);
  }
}

Result<FolderContent> read_folder(const fs::path& folder) {
  FolderContent content;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    std::error_code unreadable;  // a link to nowhere: whoever opens it says so
    if (!fs::is_directory(entries->path(), unreadable)) {
      note_file(entries->path().filename().string(), content);
    }
  }
  if (error) {
    return fail(Errc::io,
                fmt::format("cannot read folder {}: {}", folder.string(), error.message()));
  }
  for (auto* names :
       {&content.safetensors, &content.other_safetensors, &content.gguf, &content.pickled}) {
    std::sort(names->begin(), names->end());
  }
  return content;
}

// The first few names, for a message.
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShownMax); i++) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > kNamesShownMax ? text + ", ..." : text;
}

std::vector<fs::path> paths_of(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<fs::path> paths;
  for (const std::string& name : names) paths.push_back(folder / name);
  return paths;
}

// Errors: not_found with the first missing file and how many of all are missing.
Status check_all_exist(const fs::path& folder, const std::vector<std::string>& names,
                       std::string_view whose) {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (!fs::exists(folder / name, ignored)) missing.push_back(name);
  }
  if (missing.empty()) return {};
  return fail(Errc::not_found,
              fmt::format("{}: {} of {} files of {} are missing: {} (is the download complete?)",
                          folder.string(), missing.size(), names.size(), whose, listed(missing)));
}

// Without an index, the names themselves say how many parts there are.
Status check_split_complete(const fs::path& folder, const std::vector<std::string>& names) {
  std::set<std::pair<std::string, int>> checked;
  for (const std::string& name : names) {
    const auto split = parse_split_name(name, kSafetensorsExtension);
    if (!split || !checked.emplace(split->stem, split->count).second) continue;
    const auto of_this_set = std::count_if(names.begin(), names.end(), [&](const auto& other) {
      const auto part = parse_split_name(other, kSafetensorsExtension);
      return part && part->stem == split->stem && part->count == split->count;
    });
    if (of_this_set != split->count) {
      return fail(Errc::not_found,
                  fmt::format("{}: {} files of the split model '{}', expected {} (is the download "
                              "complete?)",
                              folder.string(), of_this_set, split->stem, split->count));
    }
  }
  return {};
}

Result<CheckpointFiles> safetensors_files(const fs::path& folder, const FolderContent& content) {
  CheckpointFiles files;
  files.folder = folder;
  if (!content.has_index) {
    TRY(check_split_complete(folder, content.safetensors));
    files.paths = paths_of(folder, content.safetensors);
    return files;
  }
  const fs::path path = folder / kIndexName;
  TRY_ASSIGN(const std::string json, read_file(path, kIndexBytesMax));
  Result<SafetensorsIndex> index = parse_safetensors_index(json);
  if (!index) {
    Error error = std::move(index).error();
    error.message = fmt::format("{}: {}", path.string(), error.message);
    return std::unexpected(std::move(error));
  }
  TRY(check_all_exist(folder, index->files, kIndexName));
  files.paths = paths_of(folder, index->files);
  files.index = std::move(*index);
  return files;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// The file alone, or all parts of the set that its name says it belongs to.
Result<CheckpointFiles> gguf_files(const fs::path& path) {
  CheckpointFiles files;
  files.is_gguf = true;
  files.folder = folder_of(path);
  const auto split = parse_split_name(path.filename().string(), kGgufExtension);
  if (!split) {
    files.paths = {path};
    return files;
  }
  if (split->count < 1 || split->number < 1 || split->number > split->count) {
    return fail(Errc::invalid_argument,
                fmt::format("{}: part {} of {}, expected a part from 1 to the count", path.string(),
                            split->number, split->count));
  }
  for (int number = 1; number <= split->count; number++) {
    const std::string name = split_file_name(*split, number, kGgufExtension);
    std::error_code ignored;
    // The first gap ends the search: the count is only what a file name claims.
    if (!fs::exists(files.folder / name, ignored)) {
      return fail(Errc::not_found,
                  fmt::format("{}: part {} of {} is missing: {} (is the download complete?)",
                              files.folder.string(), number, split->count, name));
    }
    files.paths.push_back(files.folder / name);
  }
  return files;
}

Result<CheckpointFiles> gguf_files_of_folder(const fs::path& folder, const FolderContent& content) {
  std::vector<std::string> models;  // one name each
  std::set<std::pair<std::string, int>> sets;
  for (const std::string& name : content.gguf) {
    const auto split = parse_split_name(name, kGgufExtension);
    if (!split || sets.emplace(split->stem, split->count).second) models.push_back(name);
  }
  if (models.size() != 1) {
    return fail(Errc::invalid_argument,
                fmt::format("{} holds {} GGUF models, expected 1: name one of {}", folder.string(),
                            models.size(), listed(models)));
  }
  return gguf_files(folder / models.front());
}

// Why a folder is no model, in the words of whoever has to repair it.
std::unexpected<Error> no_model(const fs::path& folder, const FolderContent& content) {
  const auto refuse = [&](Errc code, const std::string& what) {
    return fail(code, fmt::format("{}: {}", folder.string(), what));
  };
  if (content.has_index || !content.safetensors.empty()) {
    return refuse(Errc::not_found, "no config.json beside the safetensors, expected one");
  }
  if (!content.pickled.empty()) {
    return refuse(Errc::unsupported,
                  fmt::format("PyTorch weights only ({}), expected model*.safetensors: convert "
                              "them, or get the model's safetensors",
                              listed(content.pickled)));
  }
  if (!content.other_safetensors.empty()) {
    return refuse(Errc::invalid_argument, fmt::format("only {}, expected model*.safetensors",
                                                      listed(content.other_safetensors)));
  }
  if (content.has_config) {
    return refuse(Errc::not_found, "config.json without weights, expected model*.safetensors");
  }
  return refuse(Errc::not_found,
                "no model, expected a .gguf file, or config.json with model*.safetensors");
}

Result<CheckpointFiles> files_of_folder(const fs::path& folder) {
  TRY_ASSIGN(const FolderContent content, read_folder(folder));
  if (content.has_config && (content.has_index || !content.safetensors.empty())) {
    return safetensors_files(folder, content);
  }
  if (!content.gguf.empty()) return gguf_files_of_folder(folder, content);
  return no_model(folder, content);
}

// A file of a safetensors folder means the folder, unless the folder would leave it out.
Result<CheckpointFiles> files_around(const fs::path& path) {
  TRY_ASSIGN(CheckpointFiles files, files_of_folder(folder_of(path)));
  const std::string name = path.filename().string();
  const auto named = [&](const fs::path& other) { return other.filename().string() == name; };
  if (files.is_gguf) {
    return fail(
        Errc::invalid_argument,
        fmt::format("{}: the folder holds a GGUF model, expected safetensors", path.string()));
  }
  if (name.ends_with(kSafetensorsExtension) &&
      std::none_of(files.paths.begin(), files.paths.end(), named)) {
    return fail(Errc::invalid_argument,
                fmt::format("{} is not one of the model's {} files ({}, ...)", path.string(),
                            files.paths.size(), files.paths.front().filename().string()));
  }
  return files;
}

}  // namespace

Result<CheckpointFiles> find_checkpoint_files(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return fail(Errc::not_found,
                fmt::format("cannot open {}: {}", path.string(), std::strerror(ENOENT)));
  }
  if (error) {
    return fail(Errc::io, fmt::format("cannot open {}: {}", path.string(), error.message()));
  }
  if (fs::is_directory(status)) return files_of_folder(path);
  const std::string name = path.filename().string();
  if (name.ends_with(kSafetensorsExtension) || name == kIndexName || name == kConfigName) {
    return files_around(path);
  }
  return gguf_files(path);  // by content: a GGUF file may have any name
}

}  // namespace reprise
