# Whole-model speed beside the peers, in short slices that take turns.
import json
import re
import statistics
import sys
import time
from pathlib import Path

from versus_parts import kernel_rows, machine, performance_page, samplers
from versus_parts.machine import WAITING
from versus_parts.peers import Layout
from versus_parts.rows import (OVERHEAD_AIM, OVERHEAD_BAR, RANDOM_1B, RANDOM_4B, REAL, ROWS,
                               figure, holds, peer_text, share_of_bar)
from versus_parts.serving import EightAtOnce, EndedEarly

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "versus"
QUICK_ROUNDS = 3
OVERHEAD_REPETITIONS = 11


def model_path(options, layout, name):
    if name == REAL:
        return options.model
    path = layout.random_model({RANDOM_1B: "1b", RANDOM_4B: "4b"}[name])
    if not path.exists():
        raise SystemExit(f"no {path}: tools/versus install makes it")
    return path


class Contest:
    """The contenders of one row: samples taken in turns, a different one first in each round."""

    def __init__(self, options, layout, row, chosen):
        self.eight = None
        self.model = model_path(options, layout, row.model)
        if row.kind == "server":
            waiting = WAITING[chosen["llama.cpp", "decode", row.isa]]
            self.eight = EightAtOnce(options, layout.llama_server(row.isa), row, self.model,
                                     FOLDER, waiting)
            self.contenders = {name: lambda number, name=name: self.eight.rate(name, number)
                               for name in self.eight.urls}
            return
        self.contenders = {"ours": lambda _: samplers.our_rate(options, row, self.model)}
        for peer in layout.peers(row.isa):
            waiting = WAITING[chosen[peer.name, row.kind, row.isa]]
            self.contenders[peer.name] = lambda _, peer=peer, waiting=waiting: samplers.peer_rate(
                options, peer, row, self.model, waiting)

    def round(self, number, label):
        names = list(self.contenders)
        turn = number % len(names)
        return {name: self.contenders[name](label) for name in names[turn:] + names[:turn]}

    def run(self, rounds):
        """Rates of each contender, a number a round.

        A round with a sequence that ended early counts for none of them and is repeated once, with
        other prompts; then EndedEarly.
        """
        rates = {name: [] for name in self.contenders}
        try:
            for number in range(rounds):
                try:
                    found = self.round(number, f"{number + 1}")
                except EndedEarly as early:
                    print(f"round {number + 1} is repeated: {early}", file=sys.stderr, flush=True)
                    found = self.round(number, f"{number + 1} again")
                for name, rate in found.items():
                    rates[name].append(rate)
        finally:
            if self.eight:
                self.eight.close()
        return rates

    def details(self):
        """For the server row: tokens of every sequence by round, of dropped rounds too."""
        return {"completion_tokens": self.eight.counts} if self.eight else {}


def result_of(row, rates):
    """The ratios of the rounds to the peer that is faster by its median."""
    peers = {name: values for name, values in rates.items() if name != "ours"}
    peer = max(peers, key=lambda name: statistics.median(peers[name]))
    ratios = [mine / theirs for mine, theirs in zip(rates["ours"], peers[peer])]
    ratio = statistics.median(ratios)
    return {"name": row.name, "title": row.title, "isa": row.isa, "bar": row.bar, "aim": row.aim,
            "ratio": ratio, "held": ratio, "unit": "x", "peer": peer,
            "spread": f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds",
            "contenders": list(peers), "ratios": ratios,
            "tokens_per_second": rates}


def describe(result):
    line = f"{result['title']} [{result['isa']}]: {figure(result, 'ratio')} {result['unit']}"
    line += f" ({result['spread']}), peer {peer_text(result)}"
    rates = result.get("tokens_per_second", {})
    if rates:
        line += "; tokens/s " + ", ".join(
            f"{name} {statistics.median(values):.4g}" for name, values in rates.items())
    if result["bar"]:
        verdict = "holds" if holds(result) else "MISSED"
        line += f"; bar {result['bar']} {verdict}, aim {result['aim']}"
    return line


def choose_waiting(options, layout, rows):
    """How each peer's OpenMP threads wait: what is faster for it, decoding and in prefill.

    {(peer's name, kind of row, its isa): name in WAITING}, measured with the real file.
    """
    chosen = {}
    for row in rows:
        kind = "prefill" if row.kind == "prefill" else "decode"
        probe = next(one for one in ROWS if one.kind == kind)
        for peer in layout.peers(row.isa):
            if (peer.name, kind, row.isa) in chosen:
                continue
            rates = {name: [] for name in WAITING}
            for number in range(options.rounds_waiting):
                for name in list(WAITING)[::-1 if number % 2 else 1]:
                    rates[name].append(samplers.peer_rate(options, peer, probe, options.model,
                                                          WAITING[name]))
            best = max(rates, key=lambda name: statistics.median(rates[name]))
            chosen[peer.name, kind, row.isa] = best
            figures = ", ".join(f"{name} {statistics.median(values):.4g}"
                                for name, values in rates.items())
            print(f"{peer.name}, {kind} [{row.isa}]: threads wait {best} (tokens/s: {figures})",
                  flush=True)
    return chosen


def has_peers(layout, row):
    """The server row's waiting is measured with llama-bench."""
    peers = layout.peers(row.isa)
    if row.kind == "server":
        return layout.llama_server(row.isa) and any(not peer.is_ik for peer in peers)
    return peers


def wanted_rows(options, layout, not_run):
    """Those asked for whose peers are there; names of others that have a bar go to `not_run`."""
    isas = {"both": ("avx2", "native")}.get(options.isa, (options.isa,))
    if options.isa == "both" and not machine.has_avx512_vnni():
        isas = ("avx2",)  # the native builds are AVX2's there
    for row in ROWS:
        if row.isa not in isas or (options.rows and row.name not in options.rows):
            continue
        if options.quick and not row.quick and not options.rows:
            continue
        if not has_peers(layout, row):
            print(f"{row.title} [{row.isa}]: not run, no peer is installed for it", flush=True)
            if row.bar:
                not_run.append(f"{row.name} (no peer)")
            continue
        yield row


class Keeper:
    """Prints every result and keeps it at once; a quick run does not replace a full one.

    `not_run`: bars that were asked for and could not be measured, by name.
    """

    def __init__(self, options):
        program = None if options.only_kernels else options.reprise
        self.common = {**machine.describe(ROOT, program), "threads": options.threads}
        self.not_run = []
        self.folder = FOLDER / ("quick" if options.quick else "rows")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.results = []
        print(f"{self.common['cpu']}, {options.threads} threads, commit {self.common['commit']}, "
              f"{self.common['date']}", flush=True)

    def add(self, result):
        result = {**self.common, **result}
        self.results.append(result)
        name = re.sub(r"[^\w.]+", "-", result["name"])
        (self.folder / f"{name}.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
        print(describe(result), flush=True)


def measure_rows(options, layout, keeper):
    rows = list(wanted_rows(options, layout, keeper.not_run))
    chosen = choose_waiting(options, layout, rows)
    for row in rows:
        contest = Contest(options, layout, row, chosen)
        try:
            rates = contest.run(options.rounds)
        except EndedEarly as early:
            print(f"{row.title} [{row.isa}]: given up, {early}", flush=True)
            if row.bar:
                keeper.not_run.append(f"{row.name} (sequences ended early)")
            continue
        keeper.add({**result_of(row, rates), **contest.details(), "rounds": options.rounds})


def measure_overhead(options, keeper):
    """What `reprise bench` finds outside the kernels' loops, the best kernels running."""
    overhead = samplers.our_result(options, "native", 0, 1, options.model,
                                   OVERHEAD_REPETITIONS)["overhead"]
    keeper.add({"name": "overhead", "title": f"overhead of a decode step, {REAL}", "isa": "native",
                "bar": OVERHEAD_BAR, "aim": OVERHEAD_AIM, "ratio": overhead, "held": overhead,
                "at_most": True, "unit": "of the step", "peer": "limit",
                "spread": f"median of {OVERHEAD_REPETITIONS} samples"})


def measure_kernels(options, layout, keeper):
    isas = ("avx2", "native") if machine.has_avx512_vnni() else ("avx2",)
    commit = machine.commit(ROOT, options.kernel_bench, kernel_rows.ROOMS)
    for isa in isas:
        if options.isa in ("both", isa):
            results, skipped = kernel_rows.measure(options, layout, isa, FOLDER)
            keeper.not_run += skipped
            for result in results:
                keeper.add({**result, "commit": commit})


def print_verdict(results, not_run):
    """Prints the last line or two; whether there were bars, all were measured and all held."""
    held = print_held(results)
    if not_run:
        print(f"{len(not_run)} bars not run: {', '.join(not_run)}")
    return held and not not_run


def print_held(results):
    held = [result for result in results if result["bar"]]
    if not held:
        print("no bar applies to what ran")
        return False
    # What is not a number is the worst.
    worst = min(held, key=lambda result: -1 if share_of_bar(result) != share_of_bar(result)
                else share_of_bar(result))
    missed = sum(not holds(result) for result in held)
    words = f"{missed} of {len(held)} bars missed" if missed else f"all {len(held)} bars hold"
    print(f"{words}; worst ratio {figure(worst, 'held')} against a bar of {worst['bar']:.2f}: "
          f"{worst['title']} [{worst['isa']}]")
    return missed == 0


def speed(options):
    layout = Layout(options.peers)
    if not layout.peers("native") and not layout.peers("avx2"):
        raise SystemExit(f"no peers in {layout.folder}: tools/versus install")
    if not options.reprise.exists():
        raise SystemExit(f"no {options.reprise}: make build, or --reprise PATH")
    if not options.no_kernels and not options.kernel_bench.exists():
        raise SystemExit(f"no {options.kernel_bench}: build the check preset's target "
                         "reprise_kernel_bench, or --no-kernels")
    if options.update_docs:
        performance_page.require()
    options.model = options.model or machine.real_model(ROOT)
    if options.quick:
        options.rounds = min(options.rounds, QUICK_ROUNDS)
    options.rounds_waiting = 1 if options.quick else min(options.rounds, 3)
    begin = time.monotonic()
    keeper = Keeper(options)
    if not options.only_kernels:
        measure_rows(options, layout, keeper)
        if not options.rows:
            measure_overhead(options, keeper)
    if not options.no_kernels:
        measure_kernels(options, layout, keeper)
    if options.update_docs:
        performance_page.update()
    print(f"{time.monotonic() - begin:.0f} s", flush=True)
    held = print_verdict(keeper.results, keeper.not_run)
    sys.exit(1 if options.check and not held else 0)
