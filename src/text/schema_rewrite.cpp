// Paths of references, and copies of schemas with edits.
#include "text/schema_rewrite.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/core.h>

namespace reprise {
namespace {

// "a~1b%20c" is "a/b c": percents are a URI's escapes, tildes those of JSON pointers within it.
std::optional<std::string> without_escapes(std::string_view name) {
  std::string bytes;
  for (std::size_t i = 0; i < name.size(); i++) {
    if (name[i] != '%') {
      bytes += name[i];
      continue;
    }
    const std::string_view digits = name.substr(i + 1, 2);
    unsigned char byte = 0;
    const auto [end, trouble] = std::from_chars(digits.begin(), digits.end(), byte, 16);
    if (digits.size() != 2 || trouble != std::errc{} || end != digits.end()) return std::nullopt;
    bytes += static_cast<char>(byte);
    i += 2;
  }
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i++) {
    if (bytes[i] != '~') {
      text += bytes[i];
      continue;
    }
    i++;
    if (i == bytes.size() || (bytes[i] != '0' && bytes[i] != '1')) return std::nullopt;
    text += bytes[i] == '0' ? '~' : '/';
  }
  return text;
}

}  // namespace

Result<std::vector<std::string>> reference_path(std::string_view reference) {
  std::vector<std::string> path;
  if (reference == "#" || reference == "#/") return path;
  if (!reference.starts_with("#/"))
    return fail(Errc::invalid_argument, "only references like \"#/$defs/name\" are known");
  for (std::string_view rest = reference.substr(2);;) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    std::optional<std::string> name = without_escapes(rest.substr(0, end));
    if (!name) return fail(Errc::invalid_argument, "an escape in a reference is none");
    path.push_back(std::move(*name));
    if (end == rest.size()) return path;
    rest.remove_prefix(end + 1);
  }
}

std::string SchemaRewriter::plain_reference(const std::vector<std::string>& path,
                                            const JsonValue& target) {
  // A list of alternatives may get another name.
  const bool is_plain = std::ranges::all_of(path, [](const std::string& name) {
    return name != "oneOf" && name.find_first_of("/~%") == std::string::npos;
  });
  if (!is_plain) {
    const auto [place, is_new] = second_places_.try_emplace(&target);
    if (is_new) place->second = fmt::format("$target_{}", second_places_.size());
    return "#/" + place->second;
  }
  std::string reference = "#";
  for (const std::string& name : path) reference += "/" + name;
  return reference;
}

JsonValue SchemaRewriter::copy(const JsonValue& value) const {
  if (const JsonArray* array = value.if_array()) {
    JsonArray made;
    made.reserve(array->size());
    for (const JsonValue& item : *array) made.push_back(copy(item));
    return made;
  }
  const JsonObject* object = value.if_object();
  if (object == nullptr) return value;
  const auto found = edits_.find(object);
  const SchemaEdits* edits = found == edits_.end() ? nullptr : &found->second;
  JsonObject made;
  made.reserve(object->size());
  for (const auto& field : *object) {
    if (edits != nullptr && edits->dropped.contains(field.key())) continue;
    const bool is_renamed =
        edits != nullptr && edits->has_alternatives_apart && field.key() == "oneOf";
    const JsonValue* changed = edits == nullptr ? nullptr : edits->changed.if_contains(field.key());
    made.insert_or_assign(is_renamed ? std::string_view("anyOf") : std::string_view(field.key()),
                          changed != nullptr ? *changed : copy(field.value()));
  }
  if (edits != nullptr) {
    for (const auto& field : edits->changed) {
      if (!edits->dropped.contains(field.key())) made.insert_or_assign(field.key(), field.value());
    }
  }
  return made;
}

Result<JsonObject> SchemaRewriter::rewritten(std::size_t bytes_max) const {
  JsonValue made = copy(root_);
  std::size_t bytes = 0;
  for (const auto& [target, name] : second_places_) {
    JsonValue second = copy(*target);
    bytes += to_json(second).size();
    if (bytes > bytes_max) {
      return fail(Errc::exhausted, fmt::format("schema: {} bytes that escaped references name, "
                                               "expected at most {}",
                                               bytes, bytes_max));
    }
    made.get_object()[name] = std::move(second);
  }
  return std::move(made.get_object());
}

}  // namespace reprise
