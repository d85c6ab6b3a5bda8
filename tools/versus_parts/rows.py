# The whole-model rows of the table: what is measured, the bar, what we aim at. The kernels' bars
# are in tests/bench/kernels/report.cpp.
from dataclasses import dataclass

# Files by name: the real one, and random weights in the shapes of larger ones.
REAL, RANDOM_1B, RANDOM_4B = "Gemma 3 270M Q4_K_M", "random 1B Q4_0", "random 4B Q4_0"


@dataclass(frozen=True)
class Row:
    """A whole-model row: tokens a second of ours to the faster peer's."""
    name: str
    isa: str  # of both sides: "avx2" or "native"
    model: str
    kind: str  # "prefill" of `count` tokens, "decode" at depth `count`, "server": `count` at once
    count: int
    bar: float = 0.0  # 0: none of its own, shown only
    aim: float = 0.0
    quick: bool = False

    @property
    def title(self):
        what = {"prefill": f"prefill {self.count}", "decode": f"decode at depth {self.count}",
                "server": f"{self.count} sequences at once, llama.cpp's server"}[self.kind]
        return f"{what}, {self.model}"


def both(name, model, kind, count, bar, aim, native=(0.0, 0.0), quick=(False, False)):
    return (Row(name, "avx2", model, kind, count, bar, aim, quick[0]),
            Row(name + "-native", "native", model, kind, count, *native, quick[1]))


# The bars without a word about the instruction set are for both sides limited to AVX2.
ROWS = (
    *both("prefill-512", REAL, "prefill", 512, 1.5, 1.8, (1.3, 1.6), (True, True)),
    *both("prefill-2048", REAL, "prefill", 2048, 1.6, 2.0),
    *both("decode-0", REAL, "decode", 0, 1.25, 1.5, quick=(True, False)),
    *both("decode-2048", REAL, "decode", 2048, 1.35, 1.7, quick=(True, False)),
    *both("prefill-512-1b", RANDOM_1B, "prefill", 512, 1.5, 1.8),
    *both("decode-0-1b", RANDOM_1B, "decode", 0, 1.15, 1.4, quick=(True, False)),
    *both("decode-0-4b", RANDOM_4B, "decode", 0, 1.1, 1.3),
    *both("eight", REAL, "server", 8, 1.7, 2.2, (1.7, 2.2), (True, True)),
)

# Of a decode step of the real file: the part outside the thread pool's loops, at most.
OVERHEAD_BAR, OVERHEAD_AIM = 0.03, 0.01


def share_of_bar(result):
    """1 and more: the bar holds. Only for results that have a bar."""
    held, bar = result["held"], result["bar"]
    return bar / max(held, 1e-9) if result.get("at_most") else held / bar


def holds(result):
    return share_of_bar(result) >= 1


def only_peer(result):
    """The peer of a whole-model row that no other took part in, else None; kernels have one."""
    if result["unit"] != "x":
        return None
    contenders = result.get("contenders") or [
        name for name in result["tokens_per_second"] if name != "ours"]
    peers = {name.removesuffix(" -rtr") for name in contenders}  # repacked or not is one peer
    return peers.pop() if len(peers) == 1 else None


def peer_text(result):
    return result["peer"] + (" (the only one)" if only_peer(result) else "")


def figure(result, name):
    """A ratio as text; shares of a step are small."""
    return f"{result[name]:.{3 if result.get('at_most') else 2}f}"
