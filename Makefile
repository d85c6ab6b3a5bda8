# The commands of the README. Everything is built under build/, models are kept in the user's cache.
MODEL ?= smollm2
PORT ?= 8080
SERVE_FLAGS ?=
JOBS ?= $(shell nproc)
VENV := build/venv

PREFIX ?= /usr/local

.PHONY: build install serve check-model check-port model test test-all bench format clean

build:
	@tools/install_packages build
	@test -x build/release/reprise || \
	  echo "reprise: building; the first build takes some minutes (Rust and C++, $(JOBS) jobs)" >&2
	@mkdir -p build; test -f build/release/build.ninja || cmake --preset release >build/configure.log 2>&1 || \
	  (cat build/configure.log; exit 1)
	@cmake --build --preset release -j $(JOBS) >&2

# What make build left; alone, so that nothing is built as root.
install:
	@test -x build/release/reprise || { echo "reprise: nothing to install: make build first" >&2; exit 1; }
	@install -D -m 755 build/release/reprise "$(DESTDIR)$(PREFIX)/bin/reprise"

# A name that tools/fetch_model knows is fetched and kept; anything else is a path. Checked before
# anything is built.
check-model:
	@case "$(MODEL)" in smollm2|gemma3-270m) ;; *) test -e "$(MODEL)" || \
	  { echo "reprise: MODEL=$(MODEL): expected smollm2, gemma3-270m or the path of a model" >&2; exit 1; } ;; esac

check-port:
	@case "$(PORT)" in ''|*[!0-9]*|??????*) false ;; *) test "$(PORT)" -le 65535 ;; esac || \
	  { echo "reprise: PORT=$(PORT): expected a number from 0 to 65535" >&2; exit 1; }

model: check-model
	@tools/install_packages build
	@case "$(MODEL)" in smollm2|gemma3-270m) tools/fetch_model "$(MODEL)" ;; *) echo "$(MODEL)" ;; esac

serve: check-model check-port build
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

bench: check-model build
	@path=$$($(MAKE) -s --no-print-directory model MODEL="$(MODEL)" | tail -n 1) && \
	  exec build/release/reprise bench -m "$$path"

format:
	clang-format-19 -i $$(git ls-files '*.h' '*.cpp' '*.inc')
	cargo fmt --manifest-path text-ffi/Cargo.toml

clean:
	rm -rf build
