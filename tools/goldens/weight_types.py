"""Goldens of the weight types and of the quantisers, from independent implementations.

Usage: weight_types.py <folder>        (needs numpy, gguf and mlx[cpu] from PyPI; made with
                                        gguf 0.19.0 and mlx 0.32.4)
GGUF types: <type>.blocks, ROWS rows as a file stores them, and <type>.f32, the same as floats by
gguf-py. Every byte of the integer parts is random, so all codes and sub-scales occur. Scales are
halves of ordinary size, some of them negative, zero or denormal.
Quantisers: quantize.f32, float rows of every character; quantize_q8_0.blocks, their Q8_0 blocks by
gguf-py; quantize_mlx<bits>_g<group>.bin, by mlx: integers as packed, scales, biases (F32);
quantize_mlx<bits>_g64.f32, the same as floats by mlx.
"""

import pathlib
import sys

import gguf
import mlx.core as mx
import numpy as np

ROWS, COLUMNS = 3, 512
MLX_BITS, MLX_GROUPS = (2, 3, 4, 5, 6, 8), (32, 64, 128)

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
    "Q2_K": (256, 84, [80, 82]),
    "Q3_K": (256, 110, [108]),
    "IQ4_NL": (32, 18, [0]),
    "IQ4_XS": (256, 136, [0]),
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


def rows_to_quantise(rng):
    """Eight rows: ordinary, one-sided, constant, zero, tiny, huge, ties, few values."""
    x = rng.normal(0, 1, (8, 384)).astype(np.float32)
    x[1] = np.abs(x[1]) + np.float32(0.5)
    x[2, :128], x[2, 128:256], x[2, 256:] = 1e6, -3.25, 1e-9
    x[3, ::2] = 0
    x[3, :128] = 0
    x[4] *= np.float32(1e-30)
    x[5] *= np.float32(1e6)
    x[6] = np.round(x[6] * 8) / 2
    x[6, ::32] = 127
    x[7] = rng.choice(np.array([-1, 0.5, 2], dtype=np.float32), 384)
    return x


def write_quantisers(folder, rng):
    x = rows_to_quantise(rng)
    (folder / "quantize.f32").write_bytes(x.tobytes())
    blocks = gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q8_0)
    (folder / "quantize_q8_0.blocks").write_bytes(blocks.tobytes())
    mx.set_default_device(mx.cpu)
    for bits in MLX_BITS:
        for group in MLX_GROUPS:
            parts = mx.quantize(mx.array(x), group_size=group, bits=bits)
            data = b"".join(np.array(part).tobytes() for part in parts)
            (folder / f"quantize_mlx{bits}_g{group}.bin").write_bytes(data)
        parts = mx.quantize(mx.array(x), group_size=64, bits=bits)
        floats = mx.dequantize(*parts, group_size=64, bits=bits)
        (folder / f"quantize_mlx{bits}_g64.f32").write_bytes(np.array(floats).tobytes())


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
    write_quantisers(folder, rng)


if __name__ == "__main__":
    main()
