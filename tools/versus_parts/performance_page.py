# The generated parts of docs/performance.md, from the newest results kept in build/versus.
import json
from pathlib import Path

from versus_parts.rows import ROWS, figure, holds, only_peer, peer_text

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "performance.md"
FOLDER = ROOT / "build" / "versus"
ISA_NAMES = {"avx2": "AVX2", "native": "all of the CPU's"}


def read_results():
    """By row, in the table's order; kernel rows last."""
    found = [json.loads(path.read_text(encoding="utf-8"))
             for path in sorted((FOLDER / "rows").glob("*.json"))]
    order = {row.name: index for index, row in enumerate(ROWS)}
    return sorted(found, key=lambda one: (one["isa"], order.get(one["name"], len(order)),
                                          one["name"]))


def table_line(result):
    unit = "" if result["unit"] == "x" else f" {result['unit']}"
    sign = "at most " if result.get("at_most") else ""
    bar = f"{sign}{result['bar']:g}" if result["bar"] else "-"
    aim = f"{result['aim']:g}" if result["aim"] else "-"
    verdict = "" if not result["bar"] else "yes" if holds(result) else "**no**"
    return (f"| {result['title']} | {ISA_NAMES[result['isa']]} | {bar} | {aim} | "
            f"{figure(result, 'ratio')}{unit} | {result['spread']} | {peer_text(result)} | "
            f"{verdict} | {result['commit']} |")


def speed_table():
    results = read_results()
    if not results:
        return None
    newest = max(results, key=lambda one: one["date"])
    lines = [f"{newest['cpu']}, {newest['cpus']} CPUs, {newest['threads']} threads for "
             f"whole-model rows, {newest['date']}.", "",
             "| what | instructions | bar | aim | measured | spread | peer | holds | "
             "commit |", "|---|---|---|---|---|---|---|---|---|"]
    lines += [table_line(result) for result in results]
    if any(only_peer(result) for result in results):
        lines += ["", "Where the peer is called the only one, the other took no part."]
    names = {result["name"] for result in results}
    missing = [f"{row.title}, {ISA_NAMES[row.isa]}" for row in ROWS
               if row.bar and row.name not in names]
    if missing:
        lines += ["", f"Rows with a bar that have not been measured: {'; '.join(missing)}."]
    if any(result["commit"].endswith("?") for result in results):
        lines += ["", "A commit with ?: the program was older than a source file."]
    return lines


def agreement(hashes):
    """Of our kernel sets' logits, by their hashes."""
    if len(hashes) < 2:
        return "one set only"
    return "the same bytes" if len(set(hashes.values())) == 1 else "DIFFERENT BYTES"


def kl_table():
    path = FOLDER / "kl.json"
    if not path.exists():
        return None
    report = json.loads(path.read_text(encoding="utf-8"))
    lines = [f"{report['model']}, {report['tokens']} tokens, commit {report['commit']}, "
             f"{report['date']}; the reference is {report['reference_error']:.1e} from "
             "transformers' five best logits.", "",
             "| | mean KL | 95 of 100 positions | largest | same best token |",
             "|---|---|---|---|---|"]
    for name, figures in report["results"].items():
        lines.append(f"| {name} | {figures['mean_kl']:.5f} | {figures['kl_95_of_100']:.4f} | "
                     f"{figures['kl_largest']:.3f} | {100 * figures['top1_agreement']:.1f} % |")
    hashes = report["sha256_of_logits"]
    left_out = [isa for isa in report.get("kernel_sets", ()) if isa not in hashes]
    words = f" (not run: {', '.join(left_out)})" if left_out else ""
    if "llama.cpp" not in report["results"]:
        words += "; llama.cpp was not measured"
    words = agreement(hashes) + words
    return lines + ["", f"Ours with the kernel sets {', '.join(hashes)}: {words}."]


def replace(text, name, lines):
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if begin not in text or end not in text:
        raise SystemExit(f"{PAGE}: no {begin} and {end}")
    head, rest = text.split(begin, 1)
    tail = rest.split(end, 1)[1]
    return "\n".join([head + begin, *lines, end + tail])


def require():
    if not PAGE.exists():
        raise SystemExit(f"no {PAGE}, whose tables are to be written: it belongs to the checkout "
                         "(git restore docs/performance.md)")


def update():
    """Writes what there are results for."""
    require()
    parts = {name: lines for name, lines in (("versus speed", speed_table()), ("kl", kl_table()))
             if lines}
    if not parts:
        raise SystemExit(f"nothing is kept in {FOLDER}: run tools/versus speed or tools/kl first")
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in parts.items():
        text = replace(text, name, lines)
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {', '.join(parts)} of {PAGE.relative_to(ROOT)}")
