// safetensors files: the JSON header is read in full and every tensor checked before any is used.
// Source: the safetensors format description; limits as in its reference reader.
#include "base/safetensors.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/json.h"
#include "base/printable.h"

namespace reprise {

namespace {

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
constexpr std::size_t kLengthBytes = 8;  // the header's length, before the header
constexpr std::size_t kPadding = 8;
constexpr std::uint64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kMetadataName = "__metadata__";

struct KnownDtype {
  std::string_view name;
  int bits;
};
constexpr KnownDtype kKnownDtypes[] = {
    {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
    {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
    {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

std::string_view view(const boost::json::string& text) {
  return {text.data(), text.size()};
}

std::unexpected<Error> tensor_error(std::string_view name, const std::string& what) {
  const std::string shown = printable(name);
  return fail(Errc::corrupt, fmt::format("tensor '{}': {}", shown, what), shown);
}

// A JSON value for a message.
std::string shown(const JsonValue& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return printable(to_json(value));
}

// The value as an integer 0..2^63-1; nullopt when it is anything else.
std::optional<std::uint64_t> natural(const JsonValue& value) {
  if (!value.is_int64() || value.get_int64() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value.get_int64());
}

Result<JsonObject> read_header(ByteReader& reader) {
  const auto size = reader.read<std::uint64_t>();
  if (!size) {
    return fail(Errc::corrupt, fmt::format("not a safetensors file: {} bytes, expected at least {}",
                                           reader.remaining(), kLengthBytes));
  }
  if (*size > kHeaderBytesMax) {
    return fail(Errc::corrupt,
                fmt::format("not a safetensors file: a header of {} bytes, expected at most {}",
                            *size, kHeaderBytesMax));
  }
  const auto text = reader.read_text(*size);
  if (!text) {
    return fail(Errc::corrupt,
                fmt::format("safetensors header of {} bytes, but {} bytes are left (is the "
                            "download complete?)",
                            *size, reader.remaining()));
  }
  JsonLimits limits;
  limits.depth_max = 8;
  limits.bytes_max = kHeaderBytesMax;
  Result<JsonValue> header = parse_json(*text, limits);
  if (!header) {
    return fail(Errc::corrupt, "safetensors header: " + printable(header.error().message, 200));
  }
  if (!header->is_object()) {
    return fail(Errc::corrupt,
                fmt::format("safetensors header: {}, expected an object", shown(*header)));
  }
  return std::move(header->get_object());
}

Result<std::map<std::string, std::string>> read_metadata(const JsonValue& value) {
  std::map<std::string, std::string> metadata;
  if (value.is_null()) return metadata;
  if (!value.is_object()) {
    return fail(Errc::corrupt,
                fmt::format("safetensors metadata: {}, expected an object", shown(value)));
  }
  for (const auto& [key, text] : value.get_object()) {
    if (!text.is_string()) {
      return fail(Errc::corrupt,
                  fmt::format("safetensors metadata '{}': {}, expected a text",
                              printable(std::string_view(key.data(), key.size())), shown(text)));
    }
    metadata.emplace(std::string(key), std::string(view(text.get_string())));
  }
  return metadata;
}

// The member `key` of a tensor's description.
Result<const JsonValue*> member(std::string_view name, const JsonObject& description,
                                std::string_view key) {
  const JsonValue* value = description.if_contains(key);
  if (value == nullptr) {
    return tensor_error(name, fmt::format("no '{}' in the header, expected one", key));
  }
  return value;
}

Result<std::uint64_t> read_shape(std::string_view name, const JsonValue& value,
                                 std::vector<std::int64_t>& shape) {
  if (!value.is_array()) {
    return tensor_error(name, fmt::format("a shape of {}, expected an array", shown(value)));
  }
  std::uint64_t elements = 1;
  bool empty = false;
  shape.reserve(value.get_array().size());
  for (const JsonValue& item : value.get_array()) {
    const auto dimension = natural(item);
    if (!dimension) {
      return tensor_error(name, fmt::format("dimension {} is {}, expected an integer 0..{}",
                                            shape.size(), shown(item), kInt64Max));
    }
    shape.push_back(static_cast<std::int64_t>(*dimension));
    if (*dimension == 0) {
      empty = true;
      continue;
    }
    const auto product = checked_multiply(elements, *dimension);
    if (!product || *product > kInt64Max) {
      return tensor_error(
          name, fmt::format("{} times {} elements, expected less than 2^63", elements, *dimension));
    }
    elements = *product;
  }
  return empty ? 0 : elements;
}

struct Range {
  std::uint64_t begin = 0, end = 0;  // in the data
};

Result<Range> read_range(std::string_view name, const JsonValue& value, std::uint64_t available) {
  const JsonArray* items = value.if_array();
  if (items == nullptr || items->size() != 2) {
    return tensor_error(
        name, fmt::format("data_offsets: {} items, expected 2: begin and end",
                          items == nullptr ? shown(value) : fmt::format("{}", items->size())));
  }
  const auto begin = natural((*items)[0]);
  const auto end = natural((*items)[1]);
  if (!begin || !end) {
    return tensor_error(name, fmt::format("data_offsets [{}, {}], expected two integers 0..{}",
                                          shown((*items)[0]), shown((*items)[1]), kInt64Max));
  }
  if (*begin > *end) {
    return tensor_error(name,
                        fmt::format("data_offsets [{}, {}], expected begin <= end", *begin, *end));
  }
  if (*end > available) {
    return tensor_error(name, fmt::format("data_offsets [{}, {}], but the file has {} bytes of "
                                          "data (is the download complete?)",
                                          *begin, *end, available));
  }
  return Range{*begin, *end};
}

// A dtype that we do not know may take any number of bytes: whoever uses the tensor refuses it.
Status check_size(const SafetensorsEntry& entry, std::uint64_t elements) {
  const std::optional<int> bits = safetensors_element_bits(entry.dtype);
  if (!bits) return {};
  const auto product = checked_multiply(elements, static_cast<std::uint64_t>(*bits));
  if (!product) {
    return tensor_error(entry.name, fmt::format("{} elements of {} bits ({}), expected less than "
                                                "2^64 bits",
                                                elements, *bits, entry.dtype));
  }
  if (*product % 8 != 0) {
    return tensor_error(entry.name, fmt::format("{} elements of {} bits ({}), expected whole bytes",
                                                elements, *bits, entry.dtype));
  }
  if (*product / 8 != entry.bytes.size()) {
    return tensor_error(entry.name,
                        fmt::format("{} bytes of data, expected {} for {} elements of {}",
                                    entry.bytes.size(), *product / 8, elements, entry.dtype));
  }
  return {};
}

Result<SafetensorsEntry> read_entry(std::string_view name, const JsonValue& value,
                                    std::span<const std::byte> data, std::size_t data_begin) {
  if (!value.is_object()) {
    return tensor_error(name, fmt::format("described by {}, expected an object", shown(value)));
  }
  const JsonObject& description = value.get_object();
  SafetensorsEntry entry;
  entry.name = name;
  TRY_ASSIGN(const JsonValue* dtype, member(name, description, "dtype"));
  if (!dtype->is_string()) {
    return tensor_error(name, fmt::format("a dtype of {}, expected a text", shown(*dtype)));
  }
  entry.dtype = view(dtype->get_string());
  TRY_ASSIGN(const JsonValue* shape, member(name, description, "shape"));
  TRY_ASSIGN(const std::uint64_t elements, read_shape(name, *shape, entry.shape));
  TRY_ASSIGN(const JsonValue* offsets, member(name, description, "data_offsets"));
  TRY_ASSIGN(const Range range, read_range(name, *offsets, data.size()));
  entry.bytes = data.subspan(static_cast<std::size_t>(range.begin),
                             static_cast<std::size_t>(range.end - range.begin));
  entry.offset = data_begin + static_cast<std::size_t>(range.begin);
  TRY(check_size(entry, elements));
  return entry;
}

// Gaps are harmless and allowed; bytes that two tensors share are not.
Status check_overlaps(const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < entries.size(); i++) {
    if (!entries[i].bytes.empty()) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return entries[a].offset < entries[b].offset; });
  for (std::size_t i = 1; i < order.size(); i++) {
    const SafetensorsEntry& before = entries[order[i - 1]];
    const SafetensorsEntry& after = entries[order[i]];
    const std::size_t end = before.offset + before.bytes.size();
    if (end > after.offset) {
      return tensor_error(after.name,
                          fmt::format("starts at byte {} of the file, inside tensor '{}' that ends "
                                      "at byte {}",
                                      after.offset, printable(before.name), end));
    }
  }
  return {};
}

// What the writer needs to know of a tensor: its size when the dtype is known.
bool has_its_size(const SafetensorsTensor& tensor) {
  const std::optional<int> bits = safetensors_element_bits(tensor.dtype);
  if (!bits) return true;
  std::uint64_t size = static_cast<std::uint64_t>(*bits);
  for (const std::int64_t dimension : tensor.shape) size *= static_cast<std::uint64_t>(dimension);
  return size == std::uint64_t{8} * tensor.bytes.size();
}

void append_entry(std::string& header, const SafetensorsTensor& tensor, std::size_t begin) {
  append_json_text(header, tensor.name);
  header += ":{\"dtype\":";
  append_json_text(header, tensor.dtype);
  header += ",\"shape\":[";
  for (std::size_t i = 0; i < tensor.shape.size(); i++) {
    header += fmt::format("{}{}", i == 0 ? "" : ",", tensor.shape[i]);
  }
  header += fmt::format("],\"data_offsets\":[{},{}]}}", begin, begin + tensor.bytes.size());
}

}  // namespace

std::optional<int> safetensors_element_bits(std::string_view dtype) {
  for (const KnownDtype& known : kKnownDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return std::nullopt;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  TRY_ASSIGN(MappedFile mapped, MappedFile::open(path));
  SafetensorsFile file;
  if (Status status = file.read(mapped.bytes()); !status) {
    Error error = std::move(status).error();
    error.message = fmt::format("{}: {}", path.string(), error.message);
    return std::unexpected(std::move(error));
  }
  file.file_.emplace(std::move(mapped));
  return file;
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes) {
  SafetensorsFile file;
  TRY(file.read(bytes));
  return file;
}

Status SafetensorsFile::read(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  TRY_ASSIGN(const JsonObject header, read_header(reader));
  const std::size_t data_begin = reader.position();
  const std::span<const std::byte> data = bytes.subspan(data_begin);
  entries_.reserve(header.size());
  for (const auto& item : header) {
    const std::string_view name(item.key().data(), item.key().size());
    if (name == kMetadataName) {
      TRY_ASSIGN(metadata_, read_metadata(item.value()));
      continue;
    }
    TRY_ASSIGN(SafetensorsEntry entry, read_entry(name, item.value(), data, data_begin));
    entries_.push_back(std::move(entry));
  }
  // Only now: the entries no longer move.
  for (std::size_t i = 0; i < entries_.size(); i++) index_.emplace(entries_[i].name, i);
  return check_overlaps(entries_);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

std::string write_safetensors(std::span<const SafetensorsTensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    append_json_text(header, kMetadataName);
    header += ":{";
    for (const auto& [key, text] : metadata) {
      if (header.back() != '{') header += ',';
      append_json_text(header, key);
      header += ':';
      append_json_text(header, text);
    }
    header += '}';
  }
  std::unordered_set<std::string_view> names = {kMetadataName};
  std::size_t data_bytes = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    CHECK(names.insert(tensor.name).second && has_its_size(tensor));
    if (header.size() > 1) header += ',';
    append_entry(header, tensor, data_bytes);
    data_bytes += tensor.bytes.size();
  }
  header += '}';
  header.resize((header.size() + kPadding - 1) / kPadding * kPadding, ' ');

  std::string file;
  file.reserve(kLengthBytes + header.size() + data_bytes);
  const std::uint64_t header_bytes = header.size();
  file.append(reinterpret_cast<const char*>(&header_bytes), kLengthBytes);
  file += header;
  for (const SafetensorsTensor& tensor : tensors) {
    file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  return file;
}

}  // namespace reprise
