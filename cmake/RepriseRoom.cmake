# reprise_room(name SOURCES ... ROOMS ... USES ...): the static library of one room.
# ROOMS are the rooms it may include, USES are libraries of others.

add_library(reprise_options INTERFACE)
target_include_directories(reprise_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(reprise_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  -ffp-contract=off        # a contracted multiply-add would differ between files and ISAs (law L1)
  -fno-math-errno
  # g++ 12 finds false ones of these in std::expected, std::variant and std::string at -O2.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-restrict>
  # clang 19 warns of what libstdc++'s own stable_sort calls.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
if(REPRISE_WERROR)
  target_compile_options(reprise_options INTERFACE -Werror)
endif()
if(REPRISE_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # With precompiled headers g++ 12 inlines otherwise, and finds what is not there in std::string.
  target_compile_options(reprise_options INTERFACE -Wno-error=array-bounds
    -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=nonnull
    -Wno-error=dangling-pointer -Wno-error=free-nonheap-object -Wno-error=use-after-free)
endif()
if(REPRISE_CHECKS)
  target_compile_definitions(reprise_options INTERFACE REPRISE_CHECKS)
endif()

# Sanitizer flags of one room's library, or of a program over it. UndefinedBehaviorSanitizer is off
# in http where g++ compiles: Beast takes minutes with it.
function(reprise_sanitize target room)
  if(REPRISE_SANITIZE STREQUAL "address")
    set(flags -fsanitize=address -fno-omit-frame-pointer)
    if(NOT room STREQUAL "http" OR REPRISE_LIBFUZZER)
      list(APPEND flags -fsanitize=undefined -fno-sanitize-recover=all)
    endif()
  elseif(REPRISE_SANITIZE STREQUAL "thread")
    set(flags -fsanitize=thread)
  else()
    return()
  endif()
  target_compile_options(${target} PRIVATE ${flags})
  target_link_options(${target} PUBLIC ${flags})
endfunction()

# What libFuzzer is to see of: the rooms, and the fuzz targets. Not the tests, which it would only
# slow down.
function(reprise_fuzzed target)
  if(REPRISE_LIBFUZZER)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

function(reprise_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;ROOMS;USES" ${ARGN})
  add_library(reprise_${name} STATIC ${ROOM_SOURCES})
  list(TRANSFORM ROOM_ROOMS PREPEND reprise_)
  target_link_libraries(reprise_${name} PUBLIC reprise_options ${ROOM_ROOMS} ${ROOM_USES})
  reprise_sanitize(reprise_${name} ${name})
  if(NOT name STREQUAL "kernels")  # no parsers there
    reprise_fuzzed(reprise_${name})
  endif()
  if(NOT name MATCHES "^(kernels|http)$")  # they have options of their own
    reprise_use_precompiled(reprise_${name} room)
  endif()
endfunction()

# reprise_test(name SOURCES ... [ROOM room] [USES ...]): one GoogleTest program a room (named like
# it), and one for what needs a process of its own.
function(reprise_test name)
  cmake_parse_arguments(TEST "" "ROOM" "SOURCES;USES" ${ARGN})
  if(NOT TEST_ROOM)
    set(TEST_ROOM ${name})
  endif()
  add_executable(${name}_test ${TEST_SOURCES})
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE reprise_${TEST_ROOM} ${TEST_USES} GTest::gtest
    GTest::gtest_main)
  reprise_sanitize(${name}_test ${TEST_ROOM})
  reprise_use_precompiled(${name}_test test)
  add_test(NAME ${name} COMMAND ${name}_test)
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()
