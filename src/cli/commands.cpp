// The table of commands.
#include "cli/commands.h"

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr CommandSpec kCommands[] = {
    {"serve", "serve the OpenAI API over HTTP", run_serve},
    {"run", "chat in the terminal", run_chat},
    {"generate", "continue one prompt", run_generate},
    {"inspect", "show what a model, or a snapshot of a sequence, holds", run_inspect},
    {"bench", "measure loading, prefill and decode at depths", run_bench},
    {"cache", "show or empty a running server's prompt cache", run_cache},
    {"options", "print the table of options as Markdown", run_options, true},
};

}  // namespace

std::span<const CommandSpec> command_table() {
  return kCommands;
}

int run_options(const Options& options) {
  static_cast<void>(options);
  fmt::print("{}", options_markdown());
  return 0;
}

}  // namespace reprise
