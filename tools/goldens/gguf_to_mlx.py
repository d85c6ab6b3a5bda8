#!/usr/bin/env python3
"""Turns a Gemma 3 GGUF (text) into an MLX 4-bit folder, as mlx-lm would quantise its checkpoint.

    gguf_to_mlx.py MODEL.gguf FOLDER [--bits 4] [--group 64]

Needs numpy, gguf (for dequantising) and tokenizers; no MLX. Every matrix, the embedding included,
is dequantised, rounded to bfloat16 and quantised by tiny_weights.quantize_affine, which gives MLX's
own bits; norms lose the 1 that GGUF has baked in. Scales, biases and norms are BF16. tokenizer.json
is made from the GGUF vocabulary: SentencePiece BPE with byte fallback. The 270M model takes a
minute and gives 151 MB.
"""

import argparse
import json
import pathlib
import struct

import gguf
import numpy as np
from tokenizers import decoders, processors

from make_tokenizer_goldens import USER_DEFINED, scores_tokenizer
from tiny_weights import pack_affine, quantize_affine, round_to_bf16, to_bytes

ROWS = 8192  # of a matrix at a time
NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
END_OF_TURN = "<end_of_turn>"
CHAT_TEMPLATE = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}\
{% set prefix = messages[0]['content'] + '\\n\\n' %}{% set turns = messages[1:] %}{% else %}\
{% set prefix = '' %}{% set turns = messages %}{% endif %}{% for message in turns %}\
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}\
{% endif %}{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else \
message['role']) + '\\n' + (prefix if loop.first else '') }}{{ message['content'] | trim }}\
{{ '<end_of_turn>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""


def mlx_name(name):
    """The module of a GGUF tensor."""
    path = name.removesuffix(".weight")
    if path.startswith("blk."):
        _, layer, path = path.split(".", 2)
        return f"model.layers.{layer}.{NAMES[path]}"
    return f"model.{NAMES[path]}"


def float_rows(tensor):
    """Chunks of a matrix as float32, in order."""
    for at in range(0, len(tensor.data), ROWS):
        yield gguf.quants.dequantize(tensor.data[at : at + ROWS], tensor.tensor_type)


def quantised(tensor, bits, group):
    """{suffix: (dtype, shape, bytes)} of the module that stores a matrix."""
    columns, rows = (int(extent) for extent in tensor.shape)
    parts = {"weight": bytearray(), "scales": bytearray(), "biases": bytearray()}
    for values in float_rows(tensor):
        integers, scales, biases = quantize_affine(round_to_bf16(values), bits, group, "BF16")
        parts["weight"] += pack_affine(integers, bits).tobytes()
        parts["scales"] += to_bytes(scales, "BF16")
        parts["biases"] += to_bytes(biases, "BF16")
    widths = {
        "weight": columns * bits // 32,
        "scales": columns // group,
        "biases": columns // group,
    }
    dtypes = {"weight": "U32", "scales": "BF16", "biases": "BF16"}
    return {part: (dtypes[part], [rows, widths[part]], bytes(parts[part])) for part in parts}


def convert_tensors(reader, bits, group):
    stored = {}
    for tensor in reader.tensors:
        module = mlx_name(tensor.name)
        if len(tensor.shape) == 1:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type) - np.float32(1)
            stored[f"{module}.weight"] = ("BF16", [len(values)], to_bytes(values, "BF16"))
            continue
        for part, value in quantised(tensor, bits, group).items():
            stored[f"{module}.{part}"] = value
        print(module, flush=True)
    return stored


def write_safetensors(path, stored):
    header, at = {"__metadata__": {"format": "mlx"}}, 0
    for name, (dtype, shape, content) in stored.items():
        offsets = [at, at + len(content)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        at += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, content in stored.values():
            file.write(content)


def field(reader, key, default=None):
    entry = reader.get_field(key)
    if entry is None and default is None:
        raise SystemExit(f"key {key} is missing from the file")
    return default if entry is None else entry.contents()


def convert_config(reader, vocabulary, bits, group):
    head_dim = field(reader, "gemma3.attention.key_length")
    quantization = {"group_size": group, "bits": bits, "mode": "affine"}
    eos = field(reader, "tokenizer.ggml.eos_token_id")
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "vocab_size": len(vocabulary),
        "hidden_size": field(reader, "gemma3.embedding_length"),
        "intermediate_size": field(reader, "gemma3.feed_forward_length"),
        "num_hidden_layers": field(reader, "gemma3.block_count"),
        "num_attention_heads": field(reader, "gemma3.attention.head_count"),
        "num_key_value_heads": field(reader, "gemma3.attention.head_count_kv"),
        "head_dim": head_dim,
        "query_pre_attn_scalar": head_dim,
        "rms_norm_eps": round(field(reader, "gemma3.attention.layer_norm_rms_epsilon"), 12),
        "rope_theta": field(reader, "gemma3.rope.freq_base"),
        "rope_local_base_freq": field(reader, "gemma3.rope.freq_base_swa", 10000.0),
        "rope_scaling": None,
        "sliding_window": field(reader, "gemma3.attention.sliding_window"),
        "sliding_window_pattern": 6,
        "max_position_embeddings": field(reader, "gemma3.context_length"),
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
        "bos_token_id": field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": [eos, vocabulary.index(END_OF_TURN)],
        "pad_token_id": field(reader, "tokenizer.ggml.padding_token_id"),
        "torch_dtype": "bfloat16",
        "quantization": quantization,
        "quantization_config": quantization,
    }


def convert_tokenizer(tokens, types, scores):
    # GGUF spells user-defined tokens with spaces and gives them the lowest score; SentencePiece,
    # and with it Hugging Face, spells them with its mark and gives them the highest, 0.
    tokens = [t.replace(" ", "▁") if k == USER_DEFINED else t for t, k in zip(tokens, types)]
    scores = [0.0 if kind == USER_DEFINED else score for score, kind in zip(scores, types)]
    tokenizer = scores_tokenizer(tokens, types, scores, False, True)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", 2)]
    )
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bits", type=int, default=4, choices=[2, 3, 4, 5, 6, 8])
    parser.add_argument("--group", type=int, default=64, choices=[32, 64, 128])
    options = parser.parse_args()
    reader = gguf.GGUFReader(options.model)
    architecture = field(reader, "general.architecture")
    if architecture != "gemma3":
        raise SystemExit(f"general.architecture {architecture!r}, expected 'gemma3'")
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    tokens = field(reader, "tokenizer.ggml.tokens")
    config = convert_config(reader, tokens, options.bits, options.group)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    generation = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    tokenizer_config = {
        "tokenizer_class": "GemmaTokenizerFast",
        "add_bos_token": True,
        "add_eos_token": False,
        "bos_token": tokens[config["bos_token_id"]],
        "eos_token": tokens[config["eos_token_id"][0]],
        "pad_token": tokens[config["pad_token_id"]],
        "unk_token": tokens[field(reader, "tokenizer.ggml.unknown_token_id")],
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config, indent=2) + "\n")
    types = field(reader, "tokenizer.ggml.token_type")
    scores = field(reader, "tokenizer.ggml.scores")
    convert_tokenizer(tokens, types, scores).save(str(folder / "tokenizer.json"), pretty=False)
    stored = convert_tensors(reader, options.bits, options.group)
    write_safetensors(folder / "model.safetensors", stored)
    print(f"{folder}: {len(stored)} tensors, {sum(len(c) for _, _, c in stored.values())} bytes")


if __name__ == "__main__":
    main()
