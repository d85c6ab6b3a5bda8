// AtemCallReader, and how bare values get their types.
#include "text/atem_call.h"

#include <algorithm>

#include "text/json_scanner.h"

namespace reprise {
namespace {

constexpr std::string_view kCalls = "<atem:function_calls>";
constexpr std::string_view kInvoke = "<atem:invoke name=\"", kInvokeEnd = "</atem:invoke>";
constexpr std::string_view kParameter = "<atem:parameter name=\"";
constexpr std::string_view kParameterEnd = "</atem:parameter>";
constexpr int kSchemaDepthMax = 8;  // of alternatives within alternatives

std::string_view kind_of(const JsonValue& value) {
  if (value.is_string()) return "string";
  if (value.is_bool()) return "boolean";
  if (value.is_null()) return "null";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return value.is_double() ? "number" : "integer";
}

bool is_kind(const JsonValue& named, std::string_view kind) {
  return named.is_string() &&
         (named.get_string() == kind || (kind == "integer" && named.get_string() == "number"));
}

// Whether a schema lets values of a kind pass, as far as its types tell.
bool accepts(const JsonObject& schema, std::string_view kind, int depth) {
  if (const JsonValue* type = schema.if_contains("type")) {
    if (!type->is_array()) return is_kind(*type, kind);
    return std::ranges::any_of(type->get_array(),
                               [&](const JsonValue& one) { return is_kind(one, kind); });
  }
  if (const JsonValue* values = schema.if_contains("enum"); values && values->is_array()) {
    return std::ranges::any_of(values->get_array(),
                               [&](const JsonValue& one) { return kind_of(one) == kind; });
  }
  if (const JsonValue* value = schema.if_contains("const")) return kind_of(*value) == kind;
  if (depth == kSchemaDepthMax) return true;
  for (const std::string_view name : {"anyOf", "oneOf"}) {
    const JsonValue* choices = schema.if_contains(name);
    if (choices == nullptr || !choices->is_array()) continue;
    return std::ranges::any_of(choices->get_array(), [&](const JsonValue& one) {
      return !one.is_object() || accepts(one.get_object(), kind, depth + 1);
    });
  }
  return true;
}

}  // namespace

std::string typed_value(std::string_view text, const JsonObject* schema) {
  const auto value = parse_json(text);
  const bool is_bare = value && !value->is_string();
  const bool takes_it = schema == nullptr || (is_bare && accepts(*schema, kind_of(*value), 0));
  const bool takes_text = schema == nullptr || accepts(*schema, "string", 0);
  if (is_bare && (takes_it || !takes_text)) return std::string(text);
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
  arguments_ += ": " + typed_value(value_, schema_of(key_));
  key_.clear();
  value_.clear();
  place_ = Place::body;
  return Step::more;
}

// Null: nothing is known of the argument.
const JsonObject* AtemCallReader::schema_of(std::string_view key) const {
  const auto& names = options_->tool_names;
  const auto index = static_cast<std::size_t>(std::ranges::find(names, name_) - names.begin());
  if (index >= options_->tool_parameters.size()) return nullptr;
  const JsonValue* properties = options_->tool_parameters[index].if_contains("properties");
  if (properties == nullptr || !properties->is_object()) return nullptr;
  const JsonValue* schema = properties->get_object().if_contains(key);
  return schema != nullptr && schema->is_object() ? &schema->get_object() : nullptr;
}

}  // namespace reprise
