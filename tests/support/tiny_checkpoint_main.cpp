// tiny_checkpoint CASE FORM FOLDER [--sharded] [--bits N] [--group N]: writes a tiny model for
// tests outside C++ and prints what to open. Without arguments: all cases and their forms.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "support/tiny_checkpoint.h"

namespace reprise::testing {
namespace {

int list_cases() {
  for (const std::string& name : tiny_cases()) {
    for (const std::string& form : tiny_forms(name)) fmt::print("{} {}\n", name, form);
  }
  return EXIT_SUCCESS;
}

int usage(std::string_view trouble) {
  fmt::print(stderr,
             "tiny_checkpoint: {}; usage: tiny_checkpoint CASE FORM FOLDER [--sharded] [--bits N] "
             "[--group N]\n",
             trouble);
  return EXIT_FAILURE;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return list_cases();
  if (arguments.size() < 3) return usage("too few arguments");
  TinyCheckpointOptions options;
  for (std::size_t at = 3; at < arguments.size(); at++) {
    if (arguments[at] == "--sharded") {
      options.sharded = true;
    } else if (arguments[at] == "--bits" && at + 1 < arguments.size()) {
      options.bits = std::atoi(arguments[++at].c_str());
    } else if (arguments[at] == "--group" && at + 1 < arguments.size()) {
      options.group = std::atoi(arguments[++at].c_str());
    } else {
      return usage("unknown option " + arguments[at]);
    }
  }
  if (std::ranges::count(tiny_cases(), arguments[0]) == 0) return usage("no case " + arguments[0]);
  const TinyCase tiny(arguments[0]);
  if (!tiny.has_form(arguments[1])) return usage("no form " + arguments[1]);
  fmt::print("{}\n", write_tiny_checkpoint(tiny, arguments[1], arguments[2], options).string());
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace reprise::testing

int main(int argc, char** argv) {
  return reprise::testing::run({argv + 1, argv + argc});
}
