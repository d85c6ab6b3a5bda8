// The two integers that every room above kernels speaks in.
#pragma once
#include <cstdint>

namespace reprise {

using TokenId = std::int32_t;   // index of a vocabulary entry
using Position = std::int64_t;  // absolute 0-based index of a token in its sequence

}  // namespace reprise
