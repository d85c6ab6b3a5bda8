// Who may ask: the server's API keys, typed on the command line or kept in a file.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "base/error.h"

namespace reprise {

// Whom a request comes from. The name is what the prompt cache keeps apart (law L8), so a key can
// be replaced under its name. An admin sees sums over all names; without keys everybody is one.
struct ApiKey {
  std::string name;
  bool is_admin = true;
};

// What a key may be: something that an Authorization header can carry.
bool is_key(std::string_view text);

class ApiKeys {
 public:
  ApiKeys() = default;  // no keys: nobody needs one
  // Admin keys named key-1, key-2, ... in this order: whoever starts the server typed them.
  explicit ApiKeys(const std::vector<std::string>& typed);

  // The typed keys and those of `file` ("" = none): one a line, `NAME KEY` or `NAME KEY admin`;
  // what begins with # is a comment. Warns when everybody on the machine can read the file.
  // Errors: not_found, io, exhausted (more than 1 MiB); invalid_argument, naming file and line, for
  // a line of another form, a name or key twice, and a file without keys (the server would be open
  // to everybody). No error repeats a key or a name: the two may have been mixed up.
  static Result<ApiKeys> load(const std::vector<std::string>& typed,
                              const std::filesystem::path& file);
  // The same from the file's text; `source` names it in errors.
  static Result<ApiKeys> parse(const std::vector<std::string>& typed, std::string_view text,
                               std::string_view source);

  // The key that an Authorization header's value ("Bearer KEY") carries; {"", admin} when none is
  // needed. Takes the same time for every wrong key of one length. Errors: 401 invalid_api_key.
  ApiResult<ApiKey> admit(std::string_view authorization) const;

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    ApiKey key;
    std::string digest;    // SHA-256: the key itself is not kept
    std::size_t line = 0;  // in the file; 0: typed
  };
  Status add(Entry entry, std::string_view source);
  Status add_line(std::string_view line, std::size_t number, std::string_view source);

  std::vector<Entry> entries_;
};

}  // namespace reprise
