// Keys are compared by digest, all of them, every digit.
#include "api/api_keys.h"

#include <algorithm>
#include <sys/stat.h>
#include <utility>

#include <fmt/core.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"

namespace reprise {
bool is_key(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char letter) { return letter > ' ' && letter < 0x7F; });
}

namespace {

constexpr std::uint64_t kFileBytesMax = std::uint64_t{1} << 20;
constexpr std::size_t kNameBytesMax = 64;
constexpr std::string_view kForm = "expected NAME KEY or NAME KEY admin";

// Takes the same time whichever digit differs, so that a key cannot be guessed byte by byte.
bool equal_digests(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t at = 0; at < a.size(); at++) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[at]) ^
                                        static_cast<unsigned char>(b[at]));
  }
  return difference == 0;
}

// What follows the scheme, whose letters' case does not matter; empty for another scheme.
std::string_view bearer_token(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size()) return {};
  for (std::size_t at = 0; at < kScheme.size(); at++) {
    const char letter = header[at];
    const char lower = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
    if (lower != kScheme[at]) return {};
  }
  header.remove_prefix(kScheme.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  while (header.ends_with(' ')) header.remove_suffix(1);
  return header;
}

// The words of a line, up to a comment.
std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r\f\v";
  std::vector<std::string_view> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(kBlank, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    if (line[at] == '#') break;
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// Names stand in logs and in the cache's tree.
bool is_name(std::string_view text) {
  return text.size() <= kNameBytesMax && std::ranges::all_of(text, [](char letter) {
           const bool alphanumeric = (letter >= 'a' && letter <= 'z') ||
                                     (letter >= 'A' && letter <= 'Z') ||
                                     (letter >= '0' && letter <= '9');
           return alphanumeric || std::string_view("._-@").find(letter) != std::string_view::npos;
         });
}

void warn_when_open(const std::filesystem::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0 || (status.st_mode & S_IROTH) == 0) return;
  spdlog::warn("{}: everybody on this machine can read the API keys (mode {:o}), expected 600",
               file.string(), status.st_mode & 07777U);
}

std::unexpected<Error> line_trouble(std::string_view source, std::size_t line,
                                    const std::string& trouble) {
  return fail(Errc::invalid_argument, fmt::format("{} line {}: {}", source, line, trouble));
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& typed) {
  for (const std::string& key : typed) {
    const std::string name = fmt::format("key-{}", entries_.size() + 1);
    entries_.push_back({{name, true}, sha256_hex(key), 0});
  }
}

Result<ApiKeys> ApiKeys::load(const std::vector<std::string>& typed,
                              const std::filesystem::path& file) {
  if (file.empty()) return ApiKeys(typed);
  TRY_ASSIGN(const std::string text, read_file(file, kFileBytesMax));
  warn_when_open(file);
  return parse(typed, text, file.string());
}

Result<ApiKeys> ApiKeys::parse(const std::vector<std::string>& typed, std::string_view text,
                               std::string_view source) {
  ApiKeys keys(typed);
  std::size_t number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    TRY(keys.add_line(line, ++number, source));
  }
  if (keys.size() == typed.size()) {
    return fail(Errc::invalid_argument,
                fmt::format("{}: got no key in {} lines, expected one or more lines NAME KEY",
                            source, number));
  }
  return keys;
}

Status ApiKeys::add_line(std::string_view line, std::size_t number, std::string_view source) {
  const std::vector<std::string_view> words = words_of(line);
  if (words.empty()) return {};
  const auto refuse_line = [&](const std::string& trouble) {
    return line_trouble(source, number, trouble);
  };
  if (words.size() < 2 || words.size() > 3) {
    return refuse_line(
        fmt::format("got {} word{}, {}", words.size(), words.size() == 1 ? "" : "s", kForm));
  }
  if (words.size() == 3 && words[2] != "admin")
    return refuse_line(fmt::format("got a third word other than admin, {}", kForm));
  if (!is_name(words[0])) {
    return refuse_line(
        fmt::format("got a name of {} bytes, expected at most {}: letters, digits "
                    "and . _ - @",
                    words[0].size(), kNameBytesMax));
  }
  if (!is_key(words[1]))
    return refuse_line("got a key with other bytes, expected printable ASCII without spaces");
  return add({{std::string(words[0]), words.size() == 3}, sha256_hex(words[1]), number}, source);
}

Status ApiKeys::add(Entry entry, std::string_view source) {
  for (const Entry& other : entries_) {
    const bool same_name = other.key.name == entry.key.name;
    if (!same_name && other.digest != entry.digest) continue;
    return line_trouble(
        source, entry.line,
        fmt::format(
            "got the {} of {} again, expected each once", same_name ? "name" : "key",
            other.line > 0 ? fmt::format("line {}", other.line) : other.key.name + " (--api-key)"));
  }
  entries_.push_back(std::move(entry));
  return {};
}

ApiResult<ApiKey> ApiKeys::admit(std::string_view authorization) const {
  if (entries_.empty()) return ApiKey();
  const std::string_view token = bearer_token(authorization);
  if (token.empty()) {
    return refuse(401, "invalid_api_key",
                  "no API key: expected the header \"Authorization: Bearer KEY\"");
  }
  const std::string digest = sha256_hex(token);
  const ApiKey* found = nullptr;
  for (const Entry& entry : entries_) {
    if (equal_digests(digest, entry.digest)) found = &entry.key;
  }
  if (!found) return refuse(401, "invalid_api_key", "the API key is not one of this server's");
  return *found;
}

}  // namespace reprise
