// Fields of requests that nobody knows: told once in the log, and in a header of each reply.
#pragma once
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/limits.h"
#include "api/reply.h"
#include "api/routes.h"

namespace reprise {

// {"x-reprise-ignored", "temprature, messages[].wink"}, or none: only names that are printable, at
// most 16 of them and 512 bytes.
HeaderList ignored_header(const std::vector<std::string>& names);

// Any thread may use it.
class IgnoredFields {
 public:
  explicit IgnoredFields(const Limits& limits) : limits_(limits) {}

  // A line for each name that there has not been yet, with the field of that endpoint that the
  // client probably meant.
  void log(Endpoint endpoint, const std::vector<std::string>& names);
  // A line for each type of tool that the model is not offered, once.
  void log_tools(const std::vector<std::string>& types);

 private:
  const Limits limits_;
  std::mutex mutex_;
  std::set<std::string> names_;  // guarded by mutex_
  std::set<std::string> types_;  // guarded by mutex_
};

}  // namespace reprise
