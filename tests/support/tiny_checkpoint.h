// Writes a tiny model (tiny_case.h) as the files a user would have: a Hugging Face or MLX folder,
// or a GGUF file, with the tests' vocabulary.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "support/tiny_case.h"

namespace reprise::testing {

struct TinyCheckpointOptions {
  // Of the affine matrices of MLX folders; 0: as the form says (4 bits; goldens hold for these
  // only). Matrices whose rows are no multiple of the group stay plain. Routers keep 8 bits.
  int bits = 0;
  int group = 0;
  bool sharded = false;  // two safetensors files and an index instead of one file
};

// Creates `folder` (and parents) and writes into it; returns what to open: the folder, or the .gguf
// file in it. Trouble with the disk ends the test program.
std::filesystem::path write_tiny_checkpoint(const TinyCase& tiny, std::string_view form,
                                            const std::filesystem::path& folder,
                                            const TinyCheckpointOptions& options = {});

// A tensor as a file stores it.
struct TinyStored {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;  // row-major, outermost first
  std::vector<std::byte> bytes;
};
// All tensors of a form, in the file's order.
std::vector<TinyStored> tiny_stored_tensors(const TinyCase& tiny, std::string_view form,
                                            const TinyCheckpointOptions& options = {});

// The bytes of a GGUF form.
std::vector<std::byte> tiny_gguf(const TinyCase& tiny, std::string_view form = "gguf");

}  // namespace reprise::testing
