// Standard output: what could not be written is an error of the command, told once, at its end.
#pragma once
#include <string_view>

namespace reprise {

// Writes and flushes, with what was buffered before. Any thread. Why it failed, if it did, is kept
// for finish_output().
void write_output(std::string_view text);

// Writes what is still buffered. Returns `exit_code`; where standard output took not all, says so
// on stderr with the system's reason and returns at least 1. A reader that left is no error (it is
// heard of only where SIGPIPE is ignored). `error` is the errno of a write that is known to have
// failed; 0: none.
int finish_output(int exit_code, int error = 0);

}  // namespace reprise
