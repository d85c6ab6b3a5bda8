// A snapshot as one safetensors file, and as lines for people (docs/snapshot_format.md).
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kv/state_snapshot.h"

namespace reprise {

// The bytes of a safetensors file: the tensors under the contract's names and in their order (types
// F16, BF16, F32, I32), and in __metadata__ format, version, family, token_length and checksum. The
// snapshot's tensors have unique names and bytes of their shape's size, as snapshot_sequence() and
// read_snapshot() give them.
std::string write_snapshot(const StateSnapshot& snapshot);

// The snapshot in such a file. Errors: corrupt (not a safetensors file, not a snapshot, a checksum
// that does not match), unsupported (another version, a tensor of another type).
Result<StateSnapshot> read_snapshot(std::span<const std::byte> bytes);

// 32 hexadecimal digits over family, token length, and every tensor's name, type, shape and bytes
// in order. Finds damage, not forgery.
std::string snapshot_checksum(const StateSnapshot& snapshot);

// What a snapshot holds, line by line: first the whole, then one line a layer with its kind,
// tokens, shapes and scalars in the order of the tensors. Any snapshot, a wrong one too.
std::vector<std::string> describe_snapshot(const StateSnapshot& snapshot);

}  // namespace reprise
