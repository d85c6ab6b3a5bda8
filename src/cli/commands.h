// The commands of the program. Each returns the process's exit code.
#pragma once
#include "cli/options.h"

namespace reprise {

int run_serve(const Options& options);     // serve.cpp: the HTTP server
int run_chat(const Options& options);      // chat.cpp: a conversation in the terminal
int run_generate(const Options& options);  // generate.cpp: one prompt, one answer
int run_inspect(const Options& options);   // inspect.cpp: what a file holds
int run_bench(const Options& options);     // bench.cpp: load, prefill and decode speed
int run_cache(const Options& options);     // cache.cpp: a running server's prompt cache
int run_options(const Options& options);   // commands.cpp: the option table as Markdown

}  // namespace reprise
