"""The files that one set of tiny weights can be stored as: Hugging Face, MLX 4-bit, GGUF.

A form is data, so that the C++ side needs no code per family. Each stored tensor is

    {"name", "type", "from": [tensors of the case], "steps": [...]}  or  {"name", "type", "values"}

The steps run on each tensor of `from`; if there are several, the results are stacked along a new
first axis. Steps: ["add", x]; ["transpose"] (the last two axes); ["slice", axis, begin, end];
["permute", heads] (rows of each head from half-split to interleaved order, llama.cpp's converter).
Type: F32, F16, BF16, or "affine" with bits, group and the type of scales (then `name` is a module:
.weight, .scales and .biases are stored).
"""

import copy

import numpy as np

from tiny_weights import dequantize_affine, pack_affine, quantize_affine, round_to, to_bytes

# ---- steps ---------------------------------------------------------------------------------------


def run_steps(values, steps):
    """A view of `values` where the steps allow one (all but add and permute)."""
    for step in steps:
        if step[0] == "add":
            values = values + np.float32(step[1])
        elif step[0] == "transpose":
            values = values.swapaxes(-1, -2)
        elif step[0] == "slice":
            _, axis, begin, end = step
            values = values[(slice(None),) * axis + (slice(begin, end),)]
        elif step[0] == "permute":
            rows = values.shape[0] // step[1] // 2
            halves = values.reshape(step[1], 2, rows, *values.shape[1:])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        else:
            raise ValueError(step)
    return values


def stored_values(tensor, weights):
    """What a form's tensor holds before its type rounds it, float32."""
    if "values" in tensor:
        return np.array(tensor["values"], dtype=np.float32)
    parts = [run_steps(weights[name], tensor["steps"]) for name in tensor["from"]]
    return parts[0] if len(parts) == 1 else np.stack(parts)


def rounded(values, tensor):
    """What a reader of the stored tensor gets, float32."""
    if tensor["type"] != "affine":
        return round_to(values, tensor["type"])
    values = round_to(values, tensor["scales"])
    quantised = quantize_affine(values, tensor["bits"], tensor["group"], tensor["scales"])
    return dequantize_affine(*quantised)


def stored_arrays(tensor, weights):
    """(name, dtype, shape, bytes) of what a form's tensor becomes in a file."""
    values, name, type_ = stored_values(tensor, weights), tensor["name"], tensor["type"]
    if type_ != "affine":
        return [(name, type_, values.shape, to_bytes(values, type_))]
    type_ = tensor["scales"]
    quantised = quantize_affine(round_to(values, type_), tensor["bits"], tensor["group"], type_)
    packed = pack_affine(quantised[0], tensor["bits"])
    floats = [
        (f"{name}.{part}", type_, array.shape, to_bytes(array, type_))
        for part, array in zip(("scales", "biases"), quantised[1:])
    ]
    return [(f"{name}.weight", "U32", packed.shape, packed.tobytes()), *floats]


def effective_weights(form, weights):
    """The case's weights as a reader of the form gets them (not for GGUF: add and permute)."""
    result = {name: values.copy() for name, values in weights.items()}
    for tensor in form["tensors"]:
        values = rounded(stored_values(tensor, weights), tensor)
        sources = tensor.get("from", [])
        for at, name in enumerate(sources):
            run_steps(result[name], tensor["steps"])[...] = (
                values if len(sources) == 1 else values[at]
            )
    return result


def tensor_of(name, source, type_="F32", steps=()):
    sources = source if isinstance(source, list) else [source]
    return {"name": name, "type": type_, "from": sources, "steps": list(steps)}


# ---- Hugging Face --------------------------------------------------------------------------------

# Cases whose hf form is the multimodal folder: outer model_type, what replaces "model." in front.
WRAPPED = {
    "gemma3_p6": ("gemma3", "language_model.model."),
    "gemma4_moe": ("gemma4", "model.language_model."),
    "llama4_scout": ("llama4", "language_model.model."),
}
DROPPED = [  # what a text server must leave aside
    {"name": "vision_tower.patch_embedding.weight", "type": "F32", "values": [0.25, -0.5]},
    {"name": "multi_modal_projector.linear.weight", "type": "F32", "values": [1.0]},
]


def hf_config(case, reference):
    config = copy.deepcopy(reference.config)
    config.pop("vision_config", None)
    if case in ("smollm2", "qwen2"):  # published files of these leave it out
        config.pop("head_dim", None)
    if case == "qwen2":  # present, and not to be used
        config |= {"sliding_window": 4, "use_sliding_window": False}
        config.pop("layer_types", None)
    if case == "gemma3_p6":
        config.pop("layer_types")
        config.pop("_sliding_window_pattern", None)
        config["sliding_window_pattern"] = 6
    return config


def hf_form(case, reference, type_="F32"):
    config = hf_config(case, reference)
    outer, prefix = WRAPPED.get(case, (None, "model."))
    if outer:
        config = {"model_type": outer, "text_config": config, "tie_word_embeddings": True}
        config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"]
    dtype = {"F32": "float32", "BF16": "bfloat16"}[type_]
    (config.get("text_config") or config)["dtype"] = dtype
    config["dtype"] = dtype
    tensors = []
    for name, kind in reference.kinds.items():
        stored = prefix + name.removeprefix("model.") if name.startswith("model.") else name
        if outer and prefix.startswith("language_model.") and name == "lm_head.weight":
            stored = "language_model.lm_head.weight"
        tensors.append(tensor_of(stored, name, "F32" if kind == "expert_bias" else type_))
    if outer or reference.model_type == "muse_glimmer":
        tensors += DROPPED
    if case == "gemma4":  # published files hold keys and values of sharing layers: not to be used
        for layer, other in ((4, 0), (5, 1)):
            for part in ("k_proj", "v_proj", "k_norm"):
                path = f"model.layers.{{}}.self_attn.{part}.weight"
                tensors.append(tensor_of(path.format(layer), path.format(other), type_))
    return {"container": "safetensors", "config": config, "tensors": tensors}


# ---- MLX -----------------------------------------------------------------------------------------

# case: (group, type of everything that is not an integer)
MLX_TYPES = {
    "gemma3": (64, "BF16"),
    "gemma3_h160": (32, "BF16"),
    "afmoe": (64, "BF16"),
    "llama4": (64, "BF16"),
    "llama": (64, "BF16"),
    "qwen3": (64, "BF16"),
    "smollm2": (32, "F32"),
    "qwen2": (64, "F16"),
}
# Modules that mlx-lm quantises to 8 bits whatever the base is.
ROUTERS = {
    "gemma4_text": "router.proj",
    "afmoe": "mlp.router.gate",
    "qwen3_moe": "mlp.gate",
}


def flat_rope(config):
    """rope_parameters (transformers 5) as the older flat keys, which mlx-lm reads."""
    rope = config.pop("rope_parameters")
    if "full_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    config["rope_theta"] = rope["rope_theta"]
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    config["rope_scaling"] = None if rope["rope_type"] == "default" else scaling


def mlx_config(case, reference, arguments):
    config = hf_config(case, reference)
    text = config.get("text_config", config)
    if reference.model_type == "gemma4_text":
        text.pop("per_layer_config", None)
        for key in ("global_head_dim", "num_global_key_value_heads"):
            text[key] = arguments.get(key)
    else:
        flat_rope(text)
    if case in ("gemma3", "gemma3_h160"):  # mlx-lm reads this and no layer_types
        text["sliding_window_pattern"] = 2
    if reference.model_type == "qwen3_moe":
        text["num_experts"] = arguments["num_experts"]
        text.pop("num_local_experts", None)
    if reference.model_type == "llama4_text":
        config = {"model_type": "llama4", "text_config": text}
    return config


def stacked_experts(reference, renames):
    """Per-expert tensors of one layer and projection as one entry: {stored name: [sources]}."""
    groups = {}
    for name in reference.kinds:
        path, found, rest = name.partition(".mlp.experts.")
        if found and rest.split(".")[0].isdigit():
            expert, projection = rest.split(".")[:2]
            key = f"{path}.{renames}.{projection}.weight"
            groups.setdefault(key, {})[int(expert)] = name
    return {key: [parts[e] for e in sorted(parts)] for key, parts in groups.items()}


def split_experts(name, shape, model_type):
    """(suffix, steps) of a fused or transposed expert tensor; suffixes replace the last word."""
    steps = [["transpose"]] if model_type == "llama4_text" else []
    if name.endswith("down_proj"):
        return [("down_proj", steps)]
    width = shape[2 if steps else 1] // 2
    return [
        ("gate_proj", [*steps, ["slice", 1, 0, width]]),
        ("up_proj", [*steps, ["slice", 1, width, 2 * width]]),
    ]


def mlx_tensors(reference):
    """(stored name, sources, steps), MLX's module names, experts stacked [experts, out, in]."""
    model_type = reference.model_type
    stacks = {"afmoe": "mlp.experts", "qwen3_moe": "mlp.switch_mlp"}
    entries = []
    if model_type in stacks:
        grouped = stacked_experts(reference, stacks[model_type])
        entries = [(name, sources, []) for name, sources in grouped.items()]
    grouped = {source for _, sources, _ in entries for source in sources}
    for name in reference.kinds:
        if name in grouped:
            continue
        if ".experts." in name:
            parent = name.rpartition(".")[0] + (".switch_glu" if "gemma4" in model_type else "")
            for suffix, steps in split_experts(name, reference.shapes[name], model_type):
                entries.append((f"{parent}.{suffix}.weight", [name], steps))
        else:
            entries.append((name, [name], []))
    rename = {
        "llama4_text": lambda name: f"language_model.{name}",
        "muse_glimmer": lambda name: name.replace("model.language_model.", "model."),
    }.get(model_type, lambda name: name)
    return [(rename(name), sources, steps) for name, sources, steps in entries]


def mlx_form(case, reference, arguments, weights):
    group, type_ = MLX_TYPES.get(case, (64, "F32"))
    config = mlx_config(case, reference, arguments)
    config["dtype"] = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[type_]
    quantization = {"group_size": group, "bits": 4, "mode": "affine"}
    tensors = []
    for name, sources, steps in mlx_tensors(reference):
        tensor = tensor_of(name, sources, type_, steps)
        shape = stored_values(tensor, weights).shape
        module = name.removesuffix(".weight")
        if name.endswith("expert_bias"):
            tensor["type"] = "F32"
        elif module != name and len(shape) > 1 and shape[-1] % group == 0:
            router = module.endswith(ROUTERS.get(reference.model_type, "\n"))
            bits, own_group = (8, 64) if router else (4, group)
            if router:
                quantization[module] = {"group_size": own_group, "bits": bits}
            tensor |= {"name": module, "type": "affine"}
            tensor |= {"bits": bits, "group": own_group, "scales": type_}
        tensors.append(tensor)
    config |= {"quantization": quantization, "quantization_config": quantization}
    return {"container": "safetensors", "config": config, "tensors": tensors}
