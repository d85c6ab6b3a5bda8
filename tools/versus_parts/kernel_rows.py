# The kernel rows: reprise_kernel_bench's bars, one run for each instruction set.
import re
import subprocess

from versus_parts import machine

# A line of its table of bars: name, bar, aim, median of the cases, worst, unit, verdict, case.
BAR_LINE = re.compile(
    r"^(?P<name>avx\S* .*?\S) +(?P<bar>\d+\.\d+) +(?P<aim>\d+\.\d+) +(?P<median>\d+\.\d+|-?nan) +"
    r"(?P<worst>\d+\.\d+|-?nan) (?P<unit>x ik|of FMA peak|of bandwidth) +"
    r"(?P<verdict>holds|MISSED): (?P<missed>\d+) of "
    r"(?P<cases>\d+) below; worst (?P<case>\S+)$", re.M)

# The same for cases that had no peer.
SKIPPED_LINE = re.compile(
    r"^(?P<name>avx\S* .*?\S) +\d+\.\d+ +\d+\.\d+ skipped: (?P<cases>\d+) cases without a "
    r"peer$", re.M)
ROOMS = ("base", "kernels")  # of src, what reprise_kernel_bench is made of


def run_bench(options, layout, isa, folder):
    """What the bench prints, kept beside its JSON; ends versus when it measured nothing."""
    library = layout.ik_library(isa, "ggml")
    name = "avx512" if isa == "native" and machine.has_avx512_vnni() else "avx2"
    command = [options.kernel_bench, f"--benchmark_filter=/{name}",
               f"--benchmark_out={folder / f'kernels-{name}.json'}",
               "--benchmark_out_format=json"]
    if library:
        command.append(f"--ik={library}")
    if options.quick or options.quick_kernels:
        command.append("--quick")
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True,
                          check=False)
    (folder / f"kernels-{name}.txt").write_text(done.stdout, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}")
    return done.stdout


def measure(options, layout, isa, folder):
    """(rows, bars not run): dictionaries as speed.py's with cases in place of rounds, and names.

    Not run are also bars that only some of their cases could be held to.
    """
    text = run_bench(options, layout, isa, folder)
    rows = []
    for match in BAR_LINE.finditer(text):
        found = match.groupdict()
        name = found["name"].split(" ", 1)[1]
        rows.append({
            "name": f"kernel {isa} {name} {found['unit']}", "title": f"{name} (1 thread)",
            "isa": isa, "bar": float(found["bar"]), "aim": float(found["aim"]),
            "ratio": float(found["median"]), "held": float(found["worst"]),
            "unit": found["unit"], "peer": "ik_llama.cpp" if found["unit"] == "x ik" else "limit",
            "contenders": ["ik_llama.cpp"] if found["unit"] == "x ik" else [],
            "spread": f"worst {found['worst']} of {found['cases']}", "worst_case": found["case"]})
    verdicts = len(re.findall(r" (?:holds|MISSED): ", text))
    skipped = [f"kernel {isa} {match['name'].split(' ', 1)[1]} ({match['cases']} cases without ik)"
               for match in SKIPPED_LINE.finditer(text)]
    if not rows or len(rows) != verdicts or len(skipped) != text.count(" skipped: "):
        raise SystemExit(f"{options.kernel_bench}: {verdicts} verdicts for {isa} in what it "
                         f"printed, {len(rows)} understood")
    return rows, skipped
