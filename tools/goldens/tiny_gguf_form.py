"""The GGUF form of a tiny case: names, keys and changes of llama.cpp's converter, all float32.

Tensor names come from gguf-py's own tables. Keys follow the converter's set_gguf_parameters; the
few that it does not write, because readers have the published value built in, are said below.
"""

import math

import gguf

from tiny_forms import split_experts, stacked_experts, tensor_of

ARCHITECTURES = {
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
    "gemma4_text": gguf.MODEL_ARCH.GEMMA4,
    "afmoe": gguf.MODEL_ARCH.AFMOE,
    "llama4_text": gguf.MODEL_ARCH.LLAMA4,
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
}


class Metadata:
    """[key, type, value] in order; type is u32, f32, bool, text, bools or i32s."""

    def __init__(self, arch):
        self.arch = arch
        self.entries = [["general.architecture", "text", arch]]

    def add(self, key, type_, value):
        key = f"{self.arch}.{key}"
        self.entries = [entry for entry in self.entries if entry[0] != key]
        self.entries.append([key, type_, value])


def rope_of(config, layer_type):
    rope = config["rope_parameters"]
    return rope.get(layer_type, rope)


def llama3_divisors(rope, head_dim):
    """rope_freqs.weight: what each inverse frequency is divided by."""
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    original = rope["original_max_position_embeddings"]
    divisors = []
    for i in range(head_dim // 2):
        length = 2 * math.pi * rope["rope_theta"] ** (2 * i / head_dim)
        if length < original / high:
            divisors.append(1.0)
        elif length > original / low:
            divisors.append(rope["factor"])
        else:
            smooth = (original / length - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return divisors


def common_metadata(metadata, config, head_dim):
    add = metadata.add
    add("context_length", "u32", config["max_position_embeddings"])
    add("embedding_length", "u32", config["hidden_size"])
    add("block_count", "u32", config["num_hidden_layers"])
    add("feed_forward_length", "u32", config["intermediate_size"])
    add("attention.head_count", "u32", config["num_attention_heads"])
    add("attention.head_count_kv", "u32", config["num_key_value_heads"])
    add("attention.layer_norm_rms_epsilon", "f32", config["rms_norm_eps"])
    add("attention.key_length", "u32", head_dim)
    add("attention.value_length", "u32", head_dim)
    rope = rope_of(config, "full_attention")
    add("rope.freq_base", "f32", rope["rope_theta"])
    if rope["rope_type"] == "linear":
        add("rope.scaling.type", "text", "linear")
        add("rope.scaling.factor", "f32", rope["factor"])
    experts = config.get("num_experts") or config.get("num_local_experts")
    if experts:
        add("expert_count", "u32", experts)
        used = config.get("num_experts_per_tok") or config["top_k_experts"]
        add("expert_used_count", "u32", used)
        width = config.get("moe_intermediate_size") or config["intermediate_size"]
        add("expert_feed_forward_length", "u32", width)


def is_sliding(config):
    return [kind == "sliding_attention" for kind in config["layer_types"]]


def gemma3_metadata(metadata, config, arguments):
    metadata.add("attention.sliding_window", "u32", config["sliding_window"])
    local = rope_of(config, "sliding_attention")
    metadata.add("rope.freq_base_swa", "f32", local["rope_theta"])
    if config.get("final_logit_softcapping"):
        metadata.add("final_logit_softcapping", "f32", config["final_logit_softcapping"])
    # Not the converter's: published files have pattern 6, and key_length as the scale's base.
    if is_sliding(config) != [(i + 1) % 6 != 0 for i in range(len(config["layer_types"]))]:
        metadata.add("attention.sliding_window_pattern", "bools", is_sliding(config))
    if config["query_pre_attn_scalar"] != config["head_dim"]:
        metadata.add("attention.scale", "f32", config["query_pre_attn_scalar"] ** -0.5)


def gemma4_metadata(metadata, config, arguments):
    add, layers = metadata.add, config["num_hidden_layers"]
    local = rope_of(config, "sliding_attention")
    add("rope.freq_base_swa", "f32", local["rope_theta"])
    add("attention.sliding_window", "u32", config["sliding_window"])
    add("final_logit_softcapping", "f32", config["final_logit_softcapping"])
    shared = config["num_kv_shared_layers"]
    add("attention.shared_kv_layers", "u32", shared)
    add("embedding_length_per_layer_input", "u32", config["hidden_size_per_layer_input"])
    sliding = is_sliding(config)
    add("attention.sliding_window_pattern", "bools", sliding)
    for key in ("key_length", "value_length"):
        add(f"attention.{key}", "u32", arguments["global_head_dim"])
        add(f"attention.{key}_swa", "u32", config["head_dim"])
    if config["use_double_wide_mlp"]:
        width = config["intermediate_size"]
        widths = [width if i < layers - shared else 2 * width for i in range(layers)]
        add("feed_forward_length", "i32s", widths)
    global_heads = arguments.get("num_global_key_value_heads")
    if global_heads is not None:
        heads = [config["num_key_value_heads"] if s else global_heads for s in sliding]
        add("attention.head_count_kv", "i32s", heads)
    add("rope.dimension_count", "u32", arguments["global_head_dim"])
    add("rope.dimension_count_swa", "u32", config["head_dim"])


def llama_metadata(metadata, config, arguments):
    metadata.add("vocab_size", "u32", config["vocab_size"])
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    metadata.add("rope.dimension_count", "u32", head_dim)


def llama4_metadata(metadata, config, arguments):
    llama_metadata(metadata, config, arguments)
    metadata.add("feed_forward_length", "u32", config["intermediate_size_mlp"])
    metadata.add("expert_feed_forward_length", "u32", config["intermediate_size"])
    metadata.add("interleave_moe_layer_step", "u32", config["interleave_moe_layer_step"])


def afmoe_metadata(metadata, config, arguments):
    llama_metadata(metadata, config, arguments)
    metadata.add("expert_shared_count", "u32", config["num_shared_experts"])
    metadata.add("leading_dense_block_count", "u32", config["num_dense_layers"])
    metadata.add("expert_weights_norm", "bool", True)
    metadata.add("expert_weights_scale", "f32", config["route_scale"])
    metadata.add("expert_gating_func", "u32", 2)  # sigmoid
    metadata.add("attention.sliding_window", "u32", config["sliding_window"])


METADATA = {
    "gemma3_text": gemma3_metadata,
    "gemma4_text": gemma4_metadata,
    "afmoe": afmoe_metadata,
    "llama4_text": llama4_metadata,
    "llama": llama_metadata,
}


def converter_tensors(reference):
    """(name that gguf-py's tables know, sources, steps)."""
    config, model_type = reference.config, reference.model_type
    experts = stacked_experts(reference, "mlp.experts")
    entries = [(name, sources, []) for name, sources in experts.items()]
    grouped = {source for sources in experts.values() for source in sources}
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name in reference.kinds:
        if name in grouped:
            continue
        steps = []
        if model_type == "gemma3_text" and name.endswith("norm.weight"):
            steps = [["add", 1]]
        if model_type == "llama" and name.split(".")[-2] in heads:
            steps = [["permute", heads[name.split(".")[-2]]]]
        if model_type == "llama4_text" and ".experts." in name:
            for suffix, split in split_experts(name, reference.shapes[name], model_type):
                entries.append((f"{name.rpartition('.')[0]}.{suffix}.weight", [name], split))
        elif ".experts." in name or name.endswith("layer_scalar"):
            entries.append((name + ".weight", [name], []))
        elif name.endswith("expert_bias"):
            entries.append((name + ".bias", [name], []))
        else:
            entries.append((name, [name], steps))
    return entries


def gguf_form(reference, arguments):
    config, model_type = reference.config, reference.model_type
    arch = ARCHITECTURES[model_type]
    metadata = Metadata(gguf.MODEL_ARCH_NAMES[arch])
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    common_metadata(metadata, config, head_dim)
    METADATA.get(model_type, lambda *_: None)(metadata, config, arguments)
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    tensors = []
    for name, sources, steps in converter_tensors(reference):
        layer = name.split(".")[2] if ".layers." in name else None
        if name.endswith("router.scale"):
            stored = f"blk.{layer}.ffn_gate_inp.scale"
        elif name.endswith("per_expert_scale"):
            stored = f"blk.{layer}.ffn_down_exps.scale"
        else:
            stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored, f"gguf-py has no name for {name}"
        tensors.append(tensor_of(stored, sources, "F32", steps))
    rope = rope_of(config, "full_attention")
    divisors = []
    if rope["rope_type"] == "llama3":
        divisors = llama3_divisors(rope, head_dim)
    elif rope["rope_type"] == "proportional":
        pairs = arguments["global_head_dim"] // 2
        rotating = int(pairs * rope["partial_rotary_factor"])
        divisors = [1.0] * rotating + [1e30] * (pairs - rotating)
    if divisors:
        tensors.append({"name": "rope_freqs.weight", "type": "F32", "values": divisors})
    return {"container": "gguf", "metadata": metadata.entries, "tensors": tensors}
