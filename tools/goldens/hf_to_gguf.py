#!/usr/bin/env python3
"""Converts a small Hugging Face checkpoint (gemma3_text or llama, safetensors F32) to GGUF F32.

    hf_to_gguf.py CHECKPOINT_FOLDER OUT_PREFIX

writes OUT_PREFIX.gguf with the names, metadata and changes of llama.cpp's converter, but without a
tokenizer. When the folder has expected.npz (arrays `ids` [1, T] and `logits` [1, T, V] of one full
forward in the reference), it also writes OUT_PREFIX.logits.f32 (raw little-endian [T, V]) and
OUT_PREFIX.ids.json. Needs numpy, nothing else.
"""

import json
import math
import struct
import sys
from pathlib import Path

import numpy as np

ALIGNMENT = 32
U32, F32, BOOL, TEXT, ARRAY = 4, 6, 7, 8, 9
TENSOR_F32 = 0

LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
# The same Hugging Face name means another place in another family.
FAMILY_NAMES = {
    "llama": {"post_attention_layernorm": "ffn_norm"},
    "gemma3": {
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    },
}
ARCHITECTURES = {"gemma3_text": "gemma3", "llama": "llama"}
GEMMA3_PATTERN = 6  # every sixth layer is global; built into the readers, so not written


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


class GgufFile:
    """Collects metadata and F32 tensors; bytes() is the whole file, version 3."""

    def __init__(self):
        self.metadata = []
        self.tensors = []

    def add(self, key, value_type, value):
        packed = {
            U32: lambda: struct.pack("<I", value),
            F32: lambda: struct.pack("<f", value),
            TEXT: lambda: text(value),
        }[value_type]()
        self.metadata.append(text(key) + struct.pack("<I", value_type) + packed)

    def add_bools(self, key, values):
        self.metadata.append(
            text(key)
            + struct.pack("<IIQ", ARRAY, BOOL, len(values))
            + bytes(int(value) for value in values)
        )

    def add_tensor(self, name, values):
        self.tensors.append((name, np.ascontiguousarray(values, dtype="<f4")))

    def bytes(self):
        infos, data = [], bytearray()
        for name, values in self.tensors:
            dims = values.shape[::-1]  # GGUF names the contiguous axis first
            infos.append(
                text(name)
                + struct.pack("<I", len(dims))
                + struct.pack(f"<{len(dims)}Q", *dims)
                + struct.pack("<IQ", TENSOR_F32, len(data))
            )
            data += values.tobytes()
            data += bytes(-len(data) % ALIGNMENT)
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.metadata))
        head += b"".join(self.metadata) + b"".join(infos)
        return head + bytes(-len(head) % ALIGNMENT) + bytes(data)


def read_safetensors(path):
    """name -> F32 array; an 8-byte header length, a JSON header, then the data."""
    blob = path.read_bytes()
    (size,) = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            sys.exit(f"tensor {name}: dtype {entry['dtype']}, expected F32")
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(blob[begin:end], dtype="<f4").reshape(entry["shape"])
    return tensors


def rope_parameters(config, layer_type):
    """The rope settings of a layer type, from either generation of config.json."""
    parameters = config.get("rope_parameters")
    if parameters is not None:
        return parameters.get(layer_type, parameters)
    if layer_type == "sliding_attention":
        return {"rope_type": "default", "rope_theta": config.get("rope_local_base_freq", 10000.0)}
    scaling = dict(config.get("rope_scaling") or {"rope_type": "default"})
    scaling.setdefault("rope_type", scaling.get("type", "default"))
    scaling["rope_theta"] = config.get("rope_theta", 10000.0)
    return scaling


def llama3_divisors(rope, head_dim):
    """What rope_freqs.weight holds: inv_i is divided by it (transformers' llama3 scaling)."""
    theta, factor = rope["rope_theta"], rope["factor"]
    low, high = rope.get("low_freq_factor", 1.0), rope.get("high_freq_factor", 4.0)
    original = rope.get("original_max_position_embeddings", 8192)
    divisors = []
    for i in range(head_dim // 2):
        wavelength = 2 * math.pi * theta ** (2 * i / head_dim)
        if wavelength < original / high:
            divisors.append(1.0)
        elif wavelength > original / low:
            divisors.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, dtype=np.float32)


def add_metadata(gguf, config, arch, head_dim):
    def add(key, value_type, value):
        gguf.add(f"{arch}.{key}", value_type, value)

    gguf.add("general.architecture", TEXT, arch)
    gguf.add("general.name", TEXT, f"tiny random {arch}")
    add("context_length", U32, config["max_position_embeddings"])
    add("embedding_length", U32, config["hidden_size"])
    add("block_count", U32, config["num_hidden_layers"])
    add("feed_forward_length", U32, config["intermediate_size"])
    add("attention.head_count", U32, config["num_attention_heads"])
    add("attention.head_count_kv", U32, config["num_key_value_heads"])
    add("attention.key_length", U32, head_dim)
    add("attention.value_length", U32, head_dim)
    add("attention.layer_norm_rms_epsilon", F32, config["rms_norm_eps"])
    rope = rope_parameters(config, "full_attention")
    add("rope.freq_base", F32, rope["rope_theta"])
    kind = rope.get("rope_type", "default")
    if kind == "linear":
        add("rope.scaling.type", TEXT, "linear")
        add("rope.scaling.factor", F32, rope["factor"])
    elif kind == "llama3" and arch == "llama":
        gguf.add_tensor("rope_freqs.weight", llama3_divisors(rope, head_dim))
    elif kind != "default":
        sys.exit(f"rope type {kind!r} of {arch}: only default, linear and (llama) llama3 are known")
    if arch == "llama":
        add("vocab_size", U32, config["vocab_size"])
        add("rope.dimension_count", U32, head_dim)
    else:
        add_gemma3_metadata(gguf, config)


def add_gemma3_metadata(gguf, config):
    layers = config["num_hidden_layers"]
    gguf.add("gemma3.attention.sliding_window", U32, config["sliding_window"])
    pattern = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or 6
    types = config.get("layer_types") or [
        "full_attention" if (i + 1) % pattern == 0 else "sliding_attention" for i in range(layers)
    ]
    sliding = [types[i] == "sliding_attention" for i in range(layers)]
    if sliding != [(i + 1) % GEMMA3_PATTERN != 0 for i in range(layers)]:
        gguf.add_bools("gemma3.attention.sliding_window_pattern", sliding)
    local = rope_parameters(config, "sliding_attention")
    gguf.add("gemma3.rope.freq_base_swa", F32, local["rope_theta"])
    gguf.add("gemma3.attention.scale", F32, config["query_pre_attn_scalar"] ** -0.5)
    if config.get("final_logit_softcapping"):
        gguf.add("gemma3.final_logit_softcapping", F32, config["final_logit_softcapping"])


def gguf_name(name, arch):
    name = name.removeprefix("model.")
    path, _, kind = name.rpartition(".")  # kind: weight or bias
    top = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
    if path in top:
        return f"{top[path]}.{kind}"
    layers, number, place = path.split(".", 2)
    names = LAYER_NAMES | FAMILY_NAMES[arch]
    if layers != "layers" or place not in names:
        sys.exit(f"tensor {name}: no GGUF name is known for it")
    return f"blk.{number}.{names[place]}.{kind}"


def half_split_to_interleaved(values, heads):
    """Rows (or a bias) of q or k: in each head new row 2j+t is old row t * head_dim/2 + j."""
    rows = values.shape[0] // heads // 2
    return values.reshape(heads, 2, rows, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def convert(config, tensors):
    arch = ARCHITECTURES.get(config["model_type"])
    if arch is None:
        sys.exit(f"model_type {config['model_type']!r}, expected one of {sorted(ARCHITECTURES)}")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    gguf = GgufFile()
    add_metadata(gguf, config, arch, head_dim)
    for name, values in tensors.items():
        if name.startswith("lm_head") and config.get("tie_word_embeddings", arch == "gemma3"):
            continue
        if arch == "gemma3" and name.endswith("norm.weight"):
            values = values + np.float32(1)
        if arch == "llama" and ".self_attn.q_proj." in name:
            values = half_split_to_interleaved(values, heads)
        if arch == "llama" and ".self_attn.k_proj." in name:
            values = half_split_to_interleaved(values, kv_heads)
        gguf.add_tensor(gguf_name(name, arch), values)
    return gguf


def write_expected(folder, prefix):
    expected = np.load(folder / "expected.npz")
    ids, logits = expected["ids"][0], expected["logits"][0]
    Path(f"{prefix}.logits.f32").write_bytes(np.ascontiguousarray(logits, dtype="<f4").tobytes())
    Path(f"{prefix}.ids.json").write_text(json.dumps([int(token) for token in ids]) + "\n")
    print(f"{prefix}: {len(ids)} ids, logits {list(logits.shape)}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, prefix = Path(sys.argv[1]), sys.argv[2]
    config = json.loads((folder / "config.json").read_text())
    gguf = convert(config, read_safetensors(folder / "model.safetensors"))
    content = gguf.bytes()
    Path(f"{prefix}.gguf").write_bytes(content)
    print(f"{prefix}.gguf: {len(gguf.tensors)} tensors, {len(content)} bytes")
    if (folder / "expected.npz").exists():
        write_expected(folder, prefix)


if __name__ == "__main__":
    main()
