// The tree of owners: what every command that runs a model builds, in order of dependence.
#pragma once
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <type_traits>

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

  // Loads the model with a progress line on stderr. Errors: as Bundle::load; invalid_argument for
  // options that the model contradicts; exhausted where the system refuses threads or memory.
  static Result<Stack> load(const Options& options);
  // Starts the engine. Errors: exhausted when the KV budget cannot hold two page columns, or not
  // the context that was asked for; where none was, the context is what the budget holds. Also
  // exhausted where the system refuses address space for the budget, memory or a thread.
  Status start_engine(const Options& options);
};

// Errors: exhausted, naming what of the system's was asked of a pool of `asked` threads and given.
Status check_started(const ThreadPool& pool, int asked);

// That the system refused memory or a thread for `what`, as libraries say it with exceptions.
Error refused(std::string_view what, const std::exception& error);

// build(), a Result; where the system refuses memory or a thread meanwhile, that is its error.
template <class Build>
std::invoke_result_t<Build> unless_refused(std::string_view what, Build&& build) {
  try {
    return build();
  } catch (const std::bad_alloc& error) {
    return std::unexpected(refused(what, error));
  } catch (const std::system_error& error) {
    return std::unexpected(refused(what, error));
  }
}

// Prints the error as one line on stderr and returns the exit code 1.
int report(const Error& error);

}  // namespace reprise
