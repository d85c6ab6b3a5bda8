#!/bin/sh
# The validation that the project's first request asks for, against any model somebody has:
#   tools/validate_seed.sh MODEL [REPRISE]
# MODEL: a GGUF file or a folder, e.g. gemma-3-4b-it-4bit. REPRISE: build/release/reprise unless given.
# Two turns (the second must hit all that was forwarded), a third past the window, a shorter prompt
# that diverges; every answer must equal that of a server without the prompt cache. Needs python3.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: tools/validate_seed.sh MODEL [REPRISE]" >&2; exit 2; }
exec python3 tools/validate_seed.py "$1" "${2:-build/release/reprise}"
