# Where clang++ compiles (the sanitizers' preset), g++ compiles the vector files: clang does not
# know g++'s target pragmas. KERNEL_SOURCES then has their objects in the place of the sources.
set(REPRISE_VECTOR_OBJECTS "" CACHE PATH "where a build with g++ and the same checks has them")
find_program(REPRISE_GXX g++ REQUIRED)
set(vector_flags -std=c++23 -O3 -I${CMAKE_SOURCE_DIR}/src -ffp-contract=off
  -fno-math-errno)
if(REPRISE_CHECKS)
  list(APPEND vector_flags -DREPRISE_CHECKS)
endif()
set(vector_sources ${KERNEL_SOURCES})
list(FILTER vector_sources INCLUDE REGEX "_avx(2|512)")
list(FILTER KERNEL_SOURCES EXCLUDE REGEX "_avx(2|512)")
foreach(source IN LISTS vector_sources)
  if(REPRISE_VECTOR_OBJECTS)
    list(APPEND KERNEL_SOURCES ${REPRISE_VECTOR_OBJECTS}/${source}.o)
    continue()
  endif()
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${REPRISE_GXX} ${vector_flags} -MD -MF ${object}.d
      -o ${object} -c ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d
    COMMENT "Building ${source} with g++" VERBATIM)
  list(APPEND KERNEL_SOURCES ${object})
endforeach()
