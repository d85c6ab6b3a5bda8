// AtemCallReader, and how bare values get their types.
#include "text/atem_call.h"

#include <algorithm>

#include "text/json_scanner.h"
#include "text/schema_walk.h"

namespace reprise {
namespace {

constexpr std::string_view kCalls = "<atem:function_calls>";
constexpr std::string_view kInvoke = "<atem:invoke name=\"", kInvokeEnd = "</atem:invoke>";
constexpr std::string_view kParameter = "<atem:parameter name=\"";
constexpr std::string_view kParameterEnd = "</atem:parameter>";

// Whether the text is one of the strings that a schema or one of its alternatives lists.
bool is_listed_text(const JsonValue& root, const JsonValue& schema, std::string_view text) {
  const JsonObject* object = without_references(root, schema).if_object();
  if (object == nullptr) return false;
  const JsonValue* constant = object->if_contains("const");
  if (constant != nullptr && *constant == JsonValue(text)) return true;
  const JsonValue* values = object->if_contains("enum");
  if (values != nullptr && values->is_array() &&
      std::ranges::find(values->get_array(), JsonValue(text)) != values->get_array().end())
    return true;
  const JsonValue* choices = object->if_contains("anyOf");
  if (choices == nullptr || !choices->is_array()) return false;
  return std::ranges::any_of(choices->get_array(), [&](const JsonValue& one) {
    const JsonObject* inner = without_references(root, one).if_object();
    return inner != nullptr && !inner->contains("anyOf") && is_listed_text(root, one, text);
  });
}

}  // namespace

std::string typed_value(std::string_view text, const JsonValue& root, const JsonValue* schema) {
  const auto value = parse_json(text, kCallLimits);
  bool is_bare = value && !value->is_string();
  if (is_bare && schema != nullptr) {
    // Where the schema takes neither, it is wrong as a string, too.
    is_bare = may_be(root, *schema, kind_of(*value)) || !may_be(root, *schema, "string");
    is_bare = is_bare && !is_listed_text(root, *schema, text);
  }
  if (is_bare) return std::string(text);
  std::string quoted;
  append_json_text(quoted, text);
  return quoted;
}

CallReader::Step AtemCallReader::push(char byte) {
  switch (place_) {
    case Place::start:
      return in_start(byte);
    case Place::name:
      return in_name(byte, name_);
    case Place::after_name:
      place_ = Place::body;
      return byte == '>' ? Step::more : Step::failed;
    case Place::body:
      return in_body(byte);
    case Place::key:
      return in_name(byte, key_);
    case Place::value:
      break;
  }
  return in_value(byte);
}

CallReader::Step AtemCallReader::in_start(char byte) {
  if (tag_.empty() && is_json_space(byte)) return Step::more;
  tag_ += byte;
  if (tag_ == kCalls) {
    tag_.clear();
  } else if (tag_ == kInvoke) {
    tag_.clear();
    place_ = Place::name;
  } else if (!kCalls.starts_with(tag_) && !kInvoke.starts_with(tag_)) {
    return Step::failed;
  }
  return Step::more;
}

// Of the function or of an argument.
CallReader::Step AtemCallReader::in_name(char byte, std::string& name) {
  if (byte != '"') {
    name += byte;
    return name.size() <= kNameBytesMax ? Step::more : Step::failed;
  }
  if (name.empty()) return Step::failed;
  if (!has_name_) {
    has_name_ = true;
    take_schema();
    arguments_ = '{';
  }
  place_ = Place::after_name;
  return Step::more;
}

CallReader::Step AtemCallReader::in_body(char byte) {
  // Behind the name of an argument stands its value.
  if (!key_.empty()) {
    place_ = Place::value;
    return in_value(byte);
  }
  if (tag_.empty() && is_json_space(byte)) return Step::more;
  tag_ += byte;
  if (tag_ == kInvokeEnd) {
    arguments_ += '}';
    return Step::done;
  }
  if (tag_ == kParameter) {
    tag_.clear();
    place_ = Place::key;
    return Step::more;
  }
  return kInvokeEnd.starts_with(tag_) || kParameter.starts_with(tag_) ? Step::more : Step::failed;
}

CallReader::Step AtemCallReader::in_value(char byte) {
  value_ += byte;
  if (byte != '>' || !value_.ends_with(kParameterEnd)) return Step::more;
  value_.resize(value_.size() - kParameterEnd.size());
  if (has_value_) arguments_ += ", ";
  has_value_ = true;
  append_json_text(arguments_, key_);
  arguments_ += ": " + typed_value(value_, root_, schema_of(key_));
  key_.clear();
  value_.clear();
  place_ = Place::body;
  return Step::more;
}

void AtemCallReader::take_schema() {
  const auto& names = options_->tool_names;
  const auto index = static_cast<std::size_t>(std::ranges::find(names, name_) - names.begin());
  if (index < options_->tool_parameters.size()) root_ = options_->tool_parameters[index];
}

// Null: nothing is known of the argument.
const JsonValue* AtemCallReader::schema_of(std::string_view key) const {
  const JsonObject* object = without_references(root_, root_).if_object();
  if (object == nullptr) return nullptr;
  const JsonValue* properties = object->if_contains("properties");
  if (properties != nullptr && properties->is_object()) {
    if (const JsonValue* schema = properties->get_object().if_contains(key)) return schema;
  }
  return object->if_contains("additionalProperties");
}

}  // namespace reprise
