// The tree of owners: what every command that runs a model builds, in order of dependence.
#pragma once
#include <memory>

#include "api/bundle.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "kernels/kernels.h"

namespace reprise {

struct Stack {
  const kernels::KernelTable* kernels = nullptr;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Bundle> bundle;
  std::unique_ptr<Engine> engine;

  // Loads the model with a progress line on stderr. Errors: as Bundle::load, and invalid_argument
  // for options that the model contradicts.
  static Result<Stack> load(const Options& options);
  // Starts the engine. Errors: exhausted when the KV budget cannot hold two page columns, or not
  // the context that was asked for; where none was, the context is what the budget holds.
  Status start_engine(const Options& options);
};

// Prints the error as one line on stderr and returns the exit code 1.
int report(const Error& error);

}  // namespace reprise
