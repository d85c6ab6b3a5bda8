# What is measured on: CPU, instruction sets, commit, date; running programs quietly.
import datetime
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

SOURCE_SUFFIXES = {".cpp", ".h", ".inc", ".c"}  # a changed CMakeLists.txt links nothing anew
# How the peers' threads wait for one another. GNU OpenMP spins by default: nearly twice as fast as
# sleeping on a quiet machine, many times slower where other programs want the CPUs.
WAITING = {"default": {}, "passive": {"GOMP_SPINCOUNT": "0", "OMP_WAIT_POLICY": "passive"}}


def run(command, **options):
    """Standard output of a program that must succeed."""
    environment = {**os.environ, **options.pop("environment", {})}
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=environment, check=False,
                          **options)
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {tail}")
    return done.stdout


def cpu_name():
    """The name, with family and model: names of virtual machines' CPUs say little."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.M))
    return (f"{found.get('model name', 'unknown CPU').strip()}, family "
            f"{found.get('cpu family', '?')}, model {found.get('model', '?')}")


def has_avx512_vnni():
    match = re.search(r"flags\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    flags = match.group(1).split() if match else []
    return {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"} <= set(flags)


def is_stale(root, program, rooms):
    """Whether a source file is newer than the program; says so."""
    built = Path(program).stat().st_mtime
    for room in rooms:
        for path in sorted((root / "src" / room).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path.stat().st_mtime > built:
                print(f"{program} is older than {path.relative_to(root)}: commit marked with ?",
                      file=sys.stderr, flush=True)
                return True
    return False


def commit(root, program=None, rooms=(".",)):
    """The short commit of the checkout, with a plus when files differ from it.

    A question mark when `program`, which is measured, is older than a file of `rooms` of src.
    """
    name = run(["git", "-C", root, "rev-parse", "--short", "HEAD"]).strip()
    changed = run(["git", "-C", root, "status", "--porcelain", "--", "src", "CMakeLists.txt"])
    stale = program is not None and is_stale(root, program, rooms)
    return name + ("+" if changed.strip() else "") + ("?" if stale else "")


def describe(root, program=None, rooms=(".",)):
    return {"cpu": cpu_name(), "cpus": len(os.sched_getaffinity(0)),
            "commit": commit(root, program, rooms),
            "date": datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z")}


def real_model(root):
    """Path of Gemma 3 270M Q4_K_M, fetched when it is not there."""
    named = os.environ.get("REPRISE_MODEL_GEMMA3")
    return named or run([root / "tools" / "fetch_model", "gemma3-270m"]).split("\n")[-2]


def spread(values):
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"
