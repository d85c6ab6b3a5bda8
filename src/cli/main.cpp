// The program: a command, its options, its exit code.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "cli/options.h"
#include "cli/stack.h"

namespace reprise {
namespace {

int run_program(const std::vector<std::string>& arguments) {
  const Result<ParsedCommand> parsed = parse_command_line(arguments);
  if (!parsed) {
    report(parsed.error());
    return 2;
  }
  if (parsed->command == nullptr) {
    fmt::print("{}", parsed->text);
    return arguments.empty() ? 2 : 0;
  }
  return parsed->command->run(parsed->options);
}

}  // namespace
}  // namespace reprise

int main(int count, char** values) {
  try {
    return reprise::run_program(std::vector<std::string>(values + 1, values + count));
  } catch (const std::exception& error) {  // libraries'; we throw none
    std::fprintf(stderr, "reprise: %s\n", error.what());
    return 1;
  }
}
