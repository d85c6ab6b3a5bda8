# Whole conversations on our server and on llama.cpp's, taking turns.
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

from versus_parts import machine, serving
from versus_parts.machine import spread

ROOT = Path(__file__).resolve().parent.parent.parent
BEST = ("--swa-full", "-sps", "0.5", "-np", "4", "--jinja", "-c", "16384")
DEFAULT = ("--jinja", "-c", "16384")
AGENT_BAR = 2.0


def memory_of(pid):
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    fields = {"resident_bytes": "VmRSS", "peak_bytes": "VmHWM"}
    return {name: 1024 * int(re.search(field + r":\s+(\d+)", status).group(1))
            for name, field in fields.items()}


def bench(options, *target):
    """One run of the scenario: its JSON. Its table goes to our stderr."""
    done = subprocess.run([options.reprise, "bench", "--scenario", options.name, *target],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def bench_of(options, server):
    with server as (url, process):
        result = bench(options, "--url", url)
        result["memory"].update(memory_of(process.pid))
    return result


def run_ours(options, log):
    """Without speculation, as the peer; the server that `bench -m` starts would speculate."""
    return bench_of(options, serving.our_server(options, options.model, "native", log))


def run_peer(flags):
    def measure(options, log):
        return bench_of(options, serving.llama_server(
            options.llama_server, options.model, options.threads, flags, log,
            machine.WAITING[options.waiting]))
    return measure


RUNNERS = {"ours": run_ours, "best": run_peer(BEST), "default": run_peer(DEFAULT)}


def seconds_of(result):
    """Turn after turn: of the turns alone, without the bench's own questions between them."""
    if result["scenario"] == "storm":
        return result["seconds"]
    return result["totals"]["turns_ms"] / 1000


def figures(result):
    totals = result["totals"]
    return {
        "seconds": seconds_of(result),
        "prefilled tokens": totals["prefilled_tokens"],
        "cached tokens": totals["cached_tokens"],
        "reuse": totals["reuse"],
        "first token p50 ms": totals["first_token_ms"]["p50"],
        "first token p95 ms": totals["first_token_ms"]["p95"],
        "first token to cold": totals["first_token_to_cold"]["p50"],
        "inter-token p50 ms": totals["inter_token_ms"]["p50"],
        "inter-token p95 ms": totals["inter_token_ms"]["p95"],
        "completion tokens": totals["completion_tokens"],
        "resident MB": result["memory"]["resident_bytes"] / 1e6,
    }


def print_comparison(rounds):
    """Medians of all, and of the rounds' ratios peer / ours."""
    for figure in figures(rounds[0]["ours"]):
        print(figure)
        mine = [figures(one["ours"])[figure] for one in rounds]
        print(f"  ours     {spread(mine)}")
        for name in list(RUNNERS)[1:]:
            theirs = [figures(one[name])[figure] for one in rounds]
            ratios = [peer / own for peer, own in zip(theirs, mine) if own]
            ratio = f", {spread(ratios)} times ours" if ratios else ""
            print(f"  {name:8} {spread(theirs)}{ratio}")


def scenario(options):
    folder = ROOT / "build" / "versus"
    folder.mkdir(parents=True, exist_ok=True)
    rounds = []
    names = list(RUNNERS)
    for number in range(options.rounds):
        turn = number % len(names)
        results = {}
        for name in names[turn:] + names[:turn]:
            print(f"round {number + 1}: {name}", file=sys.stderr, flush=True)
            log = folder / f"{options.name}-{number + 1}-{name}.log"
            results[name] = RUNNERS[name](options, log)
            path = folder / f"{options.name}-{number + 1}-{name}.json"
            path.write_text(json.dumps(results[name], indent=1), encoding="utf-8")
        rounds.append(results)
        seconds = ", ".join(f"{name} {seconds_of(results[name]):.1f}" for name in names)
        print(f"round {number + 1}: seconds {seconds}", flush=True)
    print_comparison(rounds)
    ratio = statistics.median(
        min(seconds_of(one[name]) for name in names if name != "ours") / seconds_of(one["ours"])
        for one in rounds)
    bar = AGENT_BAR if options.name == "agent" else 1.0
    print(f"{options.name}: llama-server with the faster of its flags, round by round, takes "
          f"{ratio:.2f} times our time, bar {bar}")
    sys.exit(1 if options.check and not ratio >= bar else 0)
