"""Makes tests/golden/gemma3_270m_mlx4_greedy.json: greedy tokens of the MLX 4-bit Gemma 3 270M.

    python make_mlx_greedy.py FOLDER [--exact-scale] [--out FILE]       (FOLDER: of gguf_to_mlx.py)

The folder's matrices are dequantised (scales and biases widened to float32) and run by transformers
in float32 with eager attention; 20 tokens for the prompts of gemma3_270m_greedy.json. The embedding
scale is rounded to bfloat16 (25.25), as in a bfloat16 checkpoint; --exact-scale leaves it.
Needs 3 GB of memory and some minutes.
"""

import argparse
import json
import pathlib
import struct

import numpy as np
import tokenizers
import torch
import transformers

from tiny_weights import dequantize_affine, round_to_bf16

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
TOKENS = 20


def read_safetensors(path):
    """name -> array; BF16 as float32, U32 as it is."""
    blob = np.memmap(path, dtype=np.uint8, mode="r")
    (size,) = struct.unpack("<Q", blob[:8].tobytes())
    header = json.loads(blob[8 : 8 + size].tobytes())
    header.pop("__metadata__")
    arrays = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        raw = blob[begin:end].tobytes()
        if entry["dtype"] == "U32":
            values = np.frombuffer(raw, dtype="<u4")
        else:
            values = (np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
        arrays[name] = values.reshape(entry["shape"])
    return arrays


def unpack_affine(packed, bits):
    spread = np.unpackbits(packed.view(np.uint8), axis=-1, bitorder="little")
    spread = spread.reshape(*packed.shape[:-1], -1, bits)
    return np.packbits(spread, axis=-1, bitorder="little")[..., 0]


def dequantised(folder, config):
    arrays = read_safetensors(folder / "model.safetensors")
    bits, group = config["quantization"]["bits"], config["quantization"]["group_size"]
    state = {}
    for name, values in arrays.items():
        module = name.removesuffix(".weight")
        if name.endswith((".scales", ".biases")):
            continue
        if f"{module}.scales" in arrays:
            scales, biases = arrays[f"{module}.scales"], arrays[f"{module}.biases"]
            parts = []
            for at in range(0, len(values), 8192):
                rows = slice(at, at + 8192)
                integers = unpack_affine(values[rows], bits)
                grouped = integers.reshape(len(integers), -1, group)
                parts.append(dequantize_affine(grouped, scales[rows], biases[rows]))
            values = np.concatenate(parts)
        state[name] = torch.from_numpy(np.array(values, dtype=np.float32))
    return state


def load_model(folder, exact_scale):
    config = json.loads((folder / "config.json").read_text())
    state = dequantised(folder, config)
    kept = {key: value for key, value in config.items() if "quantization" not in key}
    text = transformers.Gemma3TextConfig(**kept, attn_implementation="eager")
    model = transformers.Gemma3ForCausalLM(text).float().eval()
    info = model.load_state_dict(state, strict=False)
    assert not info.unexpected_keys and set(info.missing_keys) <= {"lm_head.weight"}, info
    model.tie_weights()
    scale = model.model.embed_tokens.embed_scale
    if not exact_scale:
        scale.copy_(torch.from_numpy(round_to_bf16(scale.numpy())))
    return model, float(scale)


def greedy(model, ids):
    """Tokens and, for each, the five best logits, in the form of gemma3_270m_greedy.json."""
    tokens, top5_ids, top5_logits = [], [], []
    with torch.no_grad():
        output = model(input_ids=torch.tensor([ids]), use_cache=True, logits_to_keep=1)
        for step in range(TOKENS):
            values, indices = output.logits[0, -1].topk(5)
            tokens.append(int(indices[0]))
            top5_ids.append(indices.tolist())
            top5_logits.append([round(value, 5) for value in values.tolist()])
            if step + 1 < TOKENS:
                output = model(
                    input_ids=torch.tensor([tokens[-1:]]),
                    cache=output.past_key_values,
                    use_cache=True,
                )
    return {"generated_ids": tokens, "top5_ids": top5_ids, "top5_logits": top5_logits}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--exact-scale", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN / "gemma3_270m_mlx4_greedy.json")
    options = parser.parse_args()
    torch.set_num_threads(2)
    tokenizer = tokenizers.Tokenizer.from_file(str(options.folder / "tokenizer.json"))
    model, scale = load_model(options.folder, options.exact_scale)
    result = {
        "how": f"gguf_to_mlx.py's folder dequantised, transformers {transformers.__version__}, "
        f"float32, eager attention, embedding scale {scale}; greedy, no stop at eos",
        "prompts": [],
    }
    for prompt in json.loads((GOLDEN / "gemma3_270m_greedy.json").read_text())["prompts"]:
        answer = greedy(model, prompt["prompt_ids"])
        margin = min(best[0] - best[1] for best in answer["top5_logits"])
        print(prompt["name"], answer["generated_ids"], f"least margin {margin:.5f}", flush=True)
        entry = {key: prompt[key] for key in ("name", "prompt", "prompt_ids")}
        text = tokenizer.decode(answer["generated_ids"], skip_special_tokens=False)
        result["prompts"].append(entry | answer | {"generated_text": text})
    options.out.write_text(json.dumps(result, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
