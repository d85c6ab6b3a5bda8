# The commands of the README. Everything is built under build/, models are kept in the user's cache.
MODEL ?= smollm2
PORT ?= 8080
SERVE_FLAGS ?=
JOBS ?= $(shell nproc)
VENV := build/venv

.PHONY: build serve model test test-all bench format clean

build:
	@tools/install_packages build
	@test -x build/release/reprise || \
	  echo "reprise: building; the first build takes some minutes (Rust and C++, $(JOBS) jobs)" >&2
	@mkdir -p build; test -f build/release/build.ninja || cmake --preset release >build/configure.log 2>&1 || \
	  (cat build/configure.log; exit 1)
	@cmake --build --preset release -j $(JOBS) >&2

# A name that tools/fetch_model knows is fetched and kept; anything else is a path.
model:
	@tools/install_packages build
	@case "$(MODEL)" in smollm2|gemma3-270m) tools/fetch_model "$(MODEL)" ;; *) echo "$(MODEL)" ;; esac

serve: build
	@path=$$($(MAKE) -s --no-print-directory model MODEL="$(MODEL)" | tail -n 1) && test -n "$$path" && \
	  exec build/release/reprise serve -m "$$path" --port $(PORT) $(SERVE_FLAGS)

# All quick tests: what CI runs.
test:
	@tools/install_packages test
	@tools/run_tests quick

# Everything, the long runs included.
test-all:
	@tools/install_packages test
	@tools/run_tests all

bench: build
	@path=$$($(MAKE) -s --no-print-directory model MODEL="$(MODEL)" | tail -n 1) && \
	  exec build/release/reprise bench -m "$$path"

format:
	clang-format-19 -i $$(git ls-files '*.h' '*.cpp' '*.inc')
	cargo fmt --manifest-path text-ffi/Cargo.toml

clean:
	rm -rf build
