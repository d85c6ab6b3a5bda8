"""Goldens of the weight types: random blocks, and what gguf-py, an independent dequantiser, says.

Usage: weight_types.py <folder>        (needs numpy and gguf from PyPI; made with gguf 0.19.0)
Writes <type>.blocks, ROWS rows as a file stores them, and <type>.f32, the same as floats.
Every byte of the integer parts is random, so all codes and sub-scales occur. Scales are halves of
ordinary size, some of them negative, zero or denormal.
"""

import pathlib
import sys

import gguf
import numpy as np

ROWS, COLUMNS = 3, 512

# type: columns of a block, bytes of a block, where its halves are
QUANTISED = {
    "Q4_0": (32, 18, [0]),
    "Q4_1": (32, 20, [0, 2]),
    "Q5_0": (32, 22, [0]),
    "Q5_1": (32, 24, [0, 2]),
    "Q8_0": (32, 34, [0]),
    "Q4_K": (256, 144, [0, 2]),
    "Q5_K": (256, 176, [0, 2]),
    "Q6_K": (256, 210, [208]),
}


def halves(rng, shape):
    values = rng.uniform(-0.1, 0.1, shape).astype(np.float16)
    special = np.array([0.0, -0.0, 6e-8, -3e-5, 1.0], dtype=np.float16)
    chosen = rng.random(shape) < 0.1
    values[chosen] = rng.choice(special, int(chosen.sum()))
    return values.view(np.uint8).reshape(*shape, 2)


def quantised_blocks(rng, name):
    columns, size, halves_at = QUANTISED[name]
    blocks = rng.integers(0, 256, (ROWS, COLUMNS // columns, size), dtype=np.uint8)
    for at in halves_at:
        blocks[:, :, at : at + 2] = halves(rng, blocks.shape[:2])
    return blocks.reshape(ROWS, -1)


def float_rows(rng, name):
    values = rng.normal(0, 1, (ROWS, COLUMNS)).astype(np.float32)
    values[:, ::37] *= np.float32(1e-6)
    if name == "F32":
        return values.view(np.uint8)
    if name == "F16":
        return values.astype(np.float16).view(np.uint8)
    return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for name in ["F32", "F16", "BF16", *QUANTISED]:
        rows = quantised_blocks(rng, name) if name in QUANTISED else float_rows(rng, name)
        rows = np.ascontiguousarray(rows)
        floats = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType[name])
        assert floats.shape == (ROWS, COLUMNS)
        (folder / f"{name}.blocks").write_bytes(rows.tobytes())
        (folder / f"{name}.f32").write_bytes(floats.astype(np.float32).tobytes())


if __name__ == "__main__":
    main()
