"""Weights of the tiny checkpoints, from a name and an index: the same bits here and in C++.

tests/support/tiny_checkpoint.cpp holds the twin of `generate`. Element i of a tensor is

    bits   = splitmix64(fnv1a64(name) ^ (seed * GOLDEN) + (i + 1) * GOLDEN)      (mod 2^64)
    u      = (bits >> 40) - 2^23, divided by 2^23: 24 bits, exact in float32, in [-1, 1)
    value  = centre + float32(spread * u)                                        (float32)

with centre and spread by the tensor's kind (KINDS: all exact in float32). Nothing here depends on a
library's random numbers. Needs numpy only.
"""

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1

# kind: (centre, spread). 0.138671875 is a standard deviation of 0.08 of a uniform distribution.
KINDS = {
    "matrix": (0.0, 0.138671875),
    "router": (0.0, 0.5),
    "wide_router": (0.0, 2.0),  # Gemma 4 divides the router's input by sqrt(hidden)
    "norm": (1.0, 0.203125),
    "score_norm": (0.5, 0.1015625),  # Gemma 4 attends with scale 1: these norms hold the scale
    "centred_norm": (0.0, 0.203125),  # applied as 1 + w
    "bias": (0.0, 0.203125),
    "expert_bias": (0.0, 2.0),  # large: chosen experts and their weights must disagree
    "expert_scale": (1.0, 0.5),
    "layer_scalar": (1.0, 0.3125),
}


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def generate(name, shape, kind, seed):
    """The tensor `name` as float32 of `shape`."""
    start = fnv1a64(name) ^ ((seed * GOLDEN) & MASK)
    count = int(np.prod(shape, dtype=np.int64))
    with np.errstate(over="ignore"):
        z = np.uint64(start) + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(
            GOLDEN
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    u = ((z >> np.uint64(40)).astype(np.int64) - (1 << 23)).astype(np.float32) / np.float32(1 << 23)
    centre, spread = KINDS[kind]
    return (np.float32(centre) + np.float32(spread) * u).reshape(shape)


def round_to_bf16(values):
    """float32 values rounded to bfloat16 (to nearest, ties to even), as float32."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return (rounded << np.uint32(16)).view(np.float32).reshape(np.shape(values))


def round_to(values, dtype):
    """float32 values rounded to "F32", "F16" or "BF16", as float32."""
    if dtype == "BF16":
        return round_to_bf16(values)
    return values.astype({"F16": np.float16, "F32": np.float32}[dtype]).astype(np.float32)


def to_bytes(values, dtype):
    """The stored bytes of float32 values as "F32", "F16" or "BF16"."""
    if dtype == "BF16":
        return (round_to_bf16(values).view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
    return values.astype({"F16": "<f2", "F32": "<f4"}[dtype]).tobytes()


def quantize_affine(values, bits, group, dtype):
    """MLX's affine quantiser along the last axis: integers, scales, biases (rounded to `dtype`).

    The edge of larger magnitude is hit exactly; integers are found with the unrounded scale.
    """
    bins = np.float32((1 << bits) - 1)
    grouped = values.reshape(*values.shape[:-1], -1, group).astype(np.float32)
    low, high = grouped.min(-1, keepdims=True), grouped.max(-1, keepdims=True)
    low_is_edge = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / bins, np.float32(1e-7))
    scale = np.where(low_is_edge, scale, -scale)
    edge = np.where(low_is_edge, low, high)
    steps = np.rint(edge / scale)
    exact = steps != 0
    scale = np.where(exact, edge / np.where(exact, steps, np.float32(1)), scale)
    bias = np.where(exact, edge, np.float32(0))
    integers = np.clip(np.rint((grouped - bias) / scale), 0, bins).astype(np.uint8)
    return integers, round_to(scale, dtype)[..., 0], round_to(bias, dtype)[..., 0]


def dequantize_affine(integers, scales, biases):
    values = integers.astype(np.float32) * scales[..., None] + biases[..., None]
    return values.reshape(*values.shape[:-2], -1)


def pack_affine(integers, bits):
    """Rows of integers [..., groups, group] as U32 [..., columns * bits / 32], low bits first."""
    rows = integers.reshape(*integers.shape[:-2], -1)
    spread = (rows[..., None] >> np.arange(bits, dtype=np.uint8)) & np.uint8(1)
    flat = np.packbits(spread.reshape(*rows.shape[:-1], -1), axis=-1, bitorder="little")
    return np.ascontiguousarray(flat).view("<u4")
