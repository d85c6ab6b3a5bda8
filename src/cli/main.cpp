// The program: a command, its options, its exit code.
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>

#include "base/machine.h"
#include "cli/options.h"
#include "cli/stack.h"
#include "cli/standard_output.h"

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
    const int code = reprise::run_program(std::vector<std::string>(values + 1, values + count));
    return reprise::finish_output(code);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "reprise: the system refused memory%s\n",
                 reprise::address_space_note().c_str());
    return 1;
  } catch (const std::system_error& error) {
    // {fmt}'s, when standard output takes no more
    if (std::ferror(stdout) != 0) return reprise::finish_output(1, error.code().value());
    std::fprintf(stderr, "reprise: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {  // libraries'; we throw none
    std::fprintf(stderr, "reprise: %s\n", error.what());
    return 1;
  }
}
