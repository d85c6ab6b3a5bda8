# The Rust library in text-ffi, built by cargo and imported as the target text_ffi.

# rustup's place first: distributions often keep an older cargo in /usr/bin.
set(cargo_homes $ENV{HOME}/.cargo)
if(DEFINED ENV{CARGO_HOME})
  list(PREPEND cargo_homes $ENV{CARGO_HOME})
endif()
find_program(REPRISE_CARGO cargo HINTS ${cargo_homes} PATH_SUFFIXES bin
  DOC "cargo, with rustc >= 1.87 (Debian 12: packages cargo-web and rustc-web)")
if(NOT REPRISE_CARGO)
  message(FATAL_ERROR
    "cargo not found: Rust >= 1.87 is needed (Debian 12: packages cargo-web rustc-web)")
endif()

# One folder for all build directories: the crates take minutes to build and are the same in each.
set(REPRISE_CARGO_TARGET_DIR ${CMAKE_SOURCE_DIR}/build/cargo CACHE PATH "where cargo builds")
set(text_ffi_source ${CMAKE_SOURCE_DIR}/text-ffi)
set(text_ffi_library ${REPRISE_CARGO_TARGET_DIR}/release/libtext_ffi.a)
set(text_ffi_cargo_options --release --locked --manifest-path ${text_ffi_source}/Cargo.toml
  --target-dir ${REPRISE_CARGO_TARGET_DIR})

add_custom_command(OUTPUT ${text_ffi_library}
  COMMAND ${REPRISE_CARGO} build ${text_ffi_cargo_options}
  # The output must become newer than its sources, also when another build directory made it.
  COMMAND ${CMAKE_COMMAND} -E touch ${text_ffi_library}
  DEPENDS ${text_ffi_source}/Cargo.toml ${text_ffi_source}/Cargo.lock
  DEPFILE ${REPRISE_CARGO_TARGET_DIR}/release/libtext_ffi.d  # cargo lists src/*.rs there
  COMMENT "Building text-ffi with cargo (minutes, the first time)"
  USES_TERMINAL VERBATIM)
add_custom_target(text_ffi_build DEPENDS ${text_ffi_library})

add_library(text_ffi STATIC IMPORTED GLOBAL)
set_target_properties(text_ffi PROPERTIES
  IMPORTED_LOCATION ${text_ffi_library}
  INTERFACE_INCLUDE_DIRECTORIES ${text_ffi_source})
# What `rustc --print native-static-libs` names for it.
target_link_libraries(text_ffi INTERFACE Threads::Threads ${CMAKE_DL_LIBS} gcc_s m)
target_link_options(text_ffi INTERFACE -Wl,--gc-sections)  # most of the crates' code is not used
add_dependencies(text_ffi text_ffi_build)
