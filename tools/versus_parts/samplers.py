# One sample of one row: tokens a second of ours, of llama.cpp's or of ik's llama-bench.
#
# Every program loads the model, warms up, and times itself; starting and loading are in no figure.
import json
import statistics

from versus_parts import machine

DECODE_TOKENS = 32  # of one repetition of a peer


def our_result(options, isa, depth, rows, model, repetitions):
    """What `reprise bench` says of one depth and number of rows (1: decoding one sequence)."""
    command = [options.reprise, "bench", "-m", model, "--depths", depth, "--rows", rows,
               "--threads", options.threads, "--repetitions", repetitions, "--log-level", "off"]
    environment = {} if isa == "native" else {"REPRISE_FORCE_ISA": isa}
    report = json.loads(machine.run(command, environment=environment))
    if isa != "native" and report["kernels"] != isa:
        raise SystemExit(f"{options.reprise} used {report['kernels']}, expected {isa}")
    return next(result for result in report["results"]
                if (result["depth"], result["rows"]) == (depth, rows))


def our_rate(options, row, model):
    rows, depth = (1, row.count) if row.kind == "decode" else (row.count, 0)
    result = our_result(options, row.isa, depth, rows, model, options.repetitions)
    return result["tokens_per_second"]


def ik_command(options, peer, row, model):
    return [peer.program, model, options.threads, int(peer.repack), row.kind, row.count,
            options.repetitions]


def llama_command(options, peer, row, model):
    command = [peer.program, "-m", model, "-t", options.threads, "-fa", "1", "-o", "json", "-r",
               options.repetitions]
    if row.kind == "prefill":
        return [*command, "-p", row.count, "-n", "0"]
    return [*command, "-p", "0", "-n", DECODE_TOKENS, "-d", row.count]


def peer_rate(options, peer, row, model, waiting):
    """Median of the repetitions; both benches warm up before them."""
    if peer.is_ik:
        text = machine.run(ik_command(options, peer, row, model), environment=waiting)
        rates = json.loads(text)["samples_ts"]
    else:
        text = machine.run(llama_command(options, peer, row, model), environment=waiting)
        rates = json.loads(text)[-1]["samples_ts"]
    return statistics.median(rates)
