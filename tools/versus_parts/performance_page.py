# The generated parts of docs/performance.md, from the newest results kept in build/versus.
import json
from pathlib import Path

from versus_parts.rows import ROWS, figure, holds

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
            f"{figure(result, 'ratio')}{unit} | {result['spread']} | {result['peer']} | {verdict} | "
            f"{result['commit']} |")


def speed_table():
    results = read_results()
    if not results:
        return None
    newest = max(results, key=lambda one: one["date"])
    lines = [f"{newest['cpu']}, {newest['cpus']} CPUs, {newest['threads']} threads for "
             f"whole-model rows, {newest['date']}.", "",
             "| what | instructions | bar | aim | measured | spread | peer | holds | "
             "commit |", "|---|---|---|---|---|---|---|---|---|"]
    return lines + [table_line(result) for result in results]


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
    words = "the same bytes" if len(set(hashes.values())) == 1 else "**different bytes**"
    return lines + ["", f"Ours with the kernel sets {', '.join(hashes)}: {words}."]


def replace(text, name, lines):
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if begin not in text or end not in text:
        raise SystemExit(f"{PAGE}: no {begin} and {end}")
    head, rest = text.split(begin, 1)
    tail = rest.split(end, 1)[1]
    return "\n".join([head + begin, *lines, end + tail])


def update():
    """Writes what there are results for."""
    parts = {name: lines for name, lines in (("versus speed", speed_table()), ("kl", kl_table()))
             if lines}
    if not parts:
        raise SystemExit(f"nothing is kept in {FOLDER}: run tools/versus speed or tools/kl first")
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in parts.items():
        text = replace(text, name, lines)
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {', '.join(parts)} of {PAGE.relative_to(ROOT)}")
