# Precompiled headers: a quarter of the time that the C++ takes to compile where nothing is cached.
# With ccache they are off: it would have to be told to trust them, and the files differ from one
# build directory to the next, so that nothing would be found again. tools/run_tests chooses.
option(REPRISE_PCH "precompiled headers in place of ccache" OFF)

set(pch_headers
  <algorithm> <array> <atomic> <chrono> <condition_variable> <cstddef> <cstdint> <cstring>
  <filesystem> <functional> <limits> <map> <memory> <mutex> <optional> <set> <span> <string>
  <string_view> <thread> <unordered_map> <utility> <variant> <vector>
  <boost/json/array.hpp> <boost/json/object.hpp> <boost/json/value.hpp> <fmt/core.h>)

# reprise_precompiled(kind HEADERS...): the target reprise_pch_<kind>, which holds the headers for
# all targets of one kind. They must be compiled with the same options and definitions.
function(reprise_precompiled kind)
  set(source ${CMAKE_BINARY_DIR}/pch_${kind}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Compiled for its precompiled headers.\n")
  add_library(reprise_pch_${kind} OBJECT ${source})
  target_link_libraries(reprise_pch_${kind} PRIVATE reprise_options fmt::fmt spdlog::spdlog
    Threads::Threads)
  target_precompile_headers(reprise_pch_${kind} PRIVATE ${pch_headers} ${ARGN})
  reprise_sanitize(reprise_pch_${kind} ${kind})
endfunction()

# Where there are any, the target is compiled with the headers of its kind: room (what reprise_room
# builds, and what is compiled like it) or test (GoogleTest's programs).
function(reprise_use_precompiled target kind)
  if(REPRISE_PCH)
    target_precompile_headers(${target} REUSE_FROM reprise_pch_${kind})
  endif()
endfunction()
