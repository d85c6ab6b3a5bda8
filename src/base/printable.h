// Text of unknown origin, made fit for a one-line message.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace reprise {

// At most `bytes_max` bytes of `text`, then "..."; bytes outside printable ASCII as \xNN.
std::string printable(std::string_view text, std::size_t bytes_max = 100);

}  // namespace reprise
