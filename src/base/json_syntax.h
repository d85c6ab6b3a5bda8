// What is wrong with a text that is not JSON, in words.
#pragma once
#include <cstddef>
#include <string_view>

namespace reprise {

// `at`: the byte that the parser stopped at, inside the text. "a comma before a closing bracket",
// "a name without double quotes" ...; "syntax error" where it is nothing that people often write.
std::string_view json_syntax_trouble(std::string_view text, std::size_t at);

}  // namespace reprise
