// Names of split files, and the index that says in which file each tensor lies.
#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/core.h>

#include "base/json.h"
#include "base/printable.h"
#include "model/checkpoint_files.h"

namespace reprise {

namespace {

constexpr std::size_t kIndexBytesMax = 100'000'000;
constexpr std::size_t kSplitDigits = 5;  // at least: the writers print %05d

// Takes "<digits>" from the end of `text`; nullopt unless there are at least kSplitDigits of them.
std::optional<int> take_number(std::string_view& text) {
  std::size_t begin = text.size();
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') begin--;
  const std::string_view digits = text.substr(begin);
  int number = 0;
  const auto [end, trouble] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.size() < kSplitDigits || trouble != std::errc()) return std::nullopt;
  text.remove_suffix(digits.size());
  return number;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

std::string_view view(const boost::json::string& text) {
  return {text.data(), text.size()};
}

// A file beside the index, and one that holds the model: nothing else on the disk may be opened.
Status check_file_name(std::string_view tensor, std::string_view file) {
  const auto refuse = [&](std::string_view expected) {
    const std::string name = printable(tensor);
    return fail(
        Errc::corrupt,
        fmt::format("tensor '{}': lies in '{}', expected {}", name, printable(file), expected),
        name);
  };
  if (file.find_first_of("/\\") != file.npos || file.find("..") != file.npos) {
    return refuse("a plain file name without '/', '\\' and '..'");
  }
  if (!file.ends_with(".safetensors")) return refuse("a name that ends in .safetensors");
  if (file.starts_with("consolidated")) return refuse("model*.safetensors");
  return {};
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view file_name, std::string_view extension) {
  std::string_view rest = file_name;
  if (!take_suffix(rest, extension)) return std::nullopt;
  const auto count = take_number(rest);
  if (!count || !take_suffix(rest, "-of-")) return std::nullopt;
  const auto number = take_number(rest);
  if (!number || !take_suffix(rest, "-")) return std::nullopt;
  return SplitName{std::string(rest), *number, *count};
}

std::string split_file_name(const SplitName& name, int number, std::string_view extension) {
  return fmt::format("{}-{:05}-of-{:05}{}", name.stem, number, name.count, extension);
}

Result<SafetensorsIndex> parse_safetensors_index(std::string_view json) {
  JsonLimits limits;
  limits.depth_max = 16;
  limits.bytes_max = kIndexBytesMax;
  const Result<JsonValue> value = parse_json(json, limits);
  if (!value) return fail(Errc::corrupt, printable(value.error().message, 200));
  const JsonObject* object = value->if_object();
  const JsonValue* weight_map = object == nullptr ? nullptr : object->if_contains("weight_map");
  if (weight_map == nullptr || !weight_map->is_object()) {
    return fail(Errc::corrupt,
                fmt::format("{}, expected an object with the object 'weight_map'",
                            object == nullptr       ? "not an object"
                            : weight_map == nullptr ? "no 'weight_map'"
                                                    : "'weight_map' is no object"),
                "weight_map");
  }
  SafetensorsIndex index;
  std::set<std::string_view> files;
  for (const auto& item : weight_map->get_object()) {
    const std::string_view tensor(item.key().data(), item.key().size());
    if (!item.value().is_string()) {
      const std::string name = printable(tensor);
      return fail(Errc::corrupt,
                  fmt::format("tensor '{}': lies in {}, expected a file name as a text", name,
                              printable(to_json(item.value()))),
                  name);
    }
    const std::string_view file = view(item.value().get_string());
    if (!files.contains(file)) {
      TRY(check_file_name(tensor, file));
      files.insert(file);
    }
    index.file_of_tensor.emplace(tensor, file);
  }
  if (files.empty()) {
    return fail(Errc::corrupt, "'weight_map' names 0 tensors, expected at least 1", "weight_map");
  }
  index.files.assign(files.begin(), files.end());
  return index;
}

}  // namespace reprise
