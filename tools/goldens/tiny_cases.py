"""The tiny models: one case a family or variant, as arguments of transformers' config class.

Windows and chunks are 8 and there are 40 ids, so positions W-1, W, W+1, 2W, C-1, C, C+1, 2C occur.
Every size is a small multiple of what the formats need: head dims of 16, rows of 32 (MLX groups;
64 where hidden is 64). Numbers that published models leave at one or zero are set to something else
wherever the family reads them.
"""

VOCABULARY = 320
WINDOW = 8
IDS = [(5 * i * i * i + 3 * i + 5) % 307 + 6 for i in range(40)]  # none of the special tokens

SLIDING, FULL = "sliding_attention", "full_attention"
LINEAR = {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
SCOUT = LLAMA3 | {"factor": 16.0, "high_freq_factor": 1.0, "original_max_position_embeddings": 16}
GEMMA4_ROPE = {
    FULL: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
}


def default_rope(theta):
    return {"rope_type": "default", "rope_theta": theta}


def sizes(hidden, feed_forward, layers, heads, kv_heads, head_dim, **more):
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": hidden,
        "intermediate_size": feed_forward,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "max_position_embeddings": 4096,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "pad_token_id": 0,
        **more,
    }


def gemma3(layer_types, **more):
    rope = {FULL: LINEAR, SLIDING: default_rope(10000.0)}
    return {
        "sliding_window": WINDOW,
        "layer_types": layer_types,
        "rope_parameters": rope,
        **more,
    }


def gemma4(layer_types, **more):
    return {
        "sliding_window": WINDOW,
        "layer_types": layer_types,
        "rope_parameters": GEMMA4_ROPE,
        "global_head_dim": 32,
        "final_logit_softcapping": 30.0,
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": VOCABULARY,
        **more,
    }


def llama4(step, **more):
    return sizes(
        64,
        64,
        4,
        4,
        2,
        16,
        intermediate_size_mlp=128,
        num_local_experts=4,
        num_experts_per_tok=1,
        interleave_moe_layer_step=step,
        attention_chunk_size=WINDOW,
        floor_scale=WINDOW,  # the temperature steps at 7, 15, 23, 31, 39
        **more,
    )


# name: (transformers' model_type, arguments, forms besides hf). The forms' details: tiny_forms.py.
CASES = {
    "gemma3": (
        "gemma3_text",
        sizes(64, 128, 4, 4, 2, 32, query_pre_attn_scalar=24, **gemma3([SLIDING, FULL] * 2)),
        ["mlx4", "gguf"],
    ),
    "gemma3_p6": (  # the pattern of the published models, derived, in the multimodal wrapper
        "gemma3_text",
        sizes(
            64,
            128,
            7,
            4,
            1,
            16,
            query_pre_attn_scalar=16,
            **gemma3([SLIDING] * 5 + [FULL, SLIDING], final_logit_softcapping=3.0),
        ),
        ["mlx4", "gguf"],
    ),
    "gemma3_h160": (  # sqrt(160) is not a bfloat16
        "gemma3_text",
        sizes(160, 192, 3, 4, 1, 32, query_pre_attn_scalar=32, **gemma3([SLIDING, FULL, SLIDING])),
        ["hf_bf16", "mlx4", "gguf"],
    ),
    "gemma4": (  # as E2B: per-layer inputs, shared keys and values, double-wide MLPs
        "gemma4_text",
        sizes(
            64,
            128,
            6,
            4,
            1,
            16,
            num_kv_shared_layers=2,
            use_double_wide_mlp=True,
            **gemma4([SLIDING, FULL] * 3, hidden_size_per_layer_input=32),
        ),
        ["hf_bf16", "mlx4", "gguf"],
    ),
    "gemma4_dense": (  # as 31B
        "gemma4_text",
        sizes(
            64,
            128,
            3,
            4,
            2,
            16,
            num_global_key_value_heads=1,
            attention_k_eq_v=True,
            **gemma4([SLIDING, SLIDING, FULL]),
        ),
        ["mlx4", "gguf"],
    ),
    "gemma4_moe": (  # as 26B-A4B
        "gemma4_text",
        sizes(
            64,
            128,
            4,
            4,
            2,
            16,
            num_global_key_value_heads=1,
            attention_k_eq_v=True,
            enable_moe_block=True,
            num_experts=8,
            top_k_experts=2,
            moe_intermediate_size=64,
            **gemma4([SLIDING] * 3 + [FULL]),
        ),
        ["mlx4", "gguf"],
    ),
    "afmoe": (
        "afmoe",
        sizes(
            64,
            128,
            5,
            4,
            2,
            32,
            moe_intermediate_size=64,
            num_experts=8,
            num_experts_per_tok=2,
            num_shared_experts=1,
            num_dense_layers=1,
            route_scale=2.826,
            mup_enabled=True,
            sliding_window=WINDOW,
            layer_types=[SLIDING] * 3 + [FULL, SLIDING],
            global_attn_every_n_layers=4,
            rope_parameters=default_rope(10000.0),
        ),
        ["hf_bf16", "mlx4", "gguf"],
    ),
    "llama4": ("llama4_text", llama4(2, rope_parameters=LLAMA3), ["hf_bf16", "mlx4"]),
    "llama4_scout": ("llama4_text", llama4(1, rope_parameters=SCOUT), ["mlx4"]),
    "llama4_maverick": (
        "llama4_text",
        llama4(2, use_qk_norm=False, rope_parameters=default_rope(500000.0)),
        ["mlx4"],
    ),
    "llama4_published": (  # chunk and temperature as GGUF readers have them built in
        "llama4_text",
        llama4(2, rope_parameters=LLAMA3) | {"attention_chunk_size": 8192, "floor_scale": 8192},
        ["gguf"],
    ),
    "muse_glimmer": (
        "muse_glimmer",
        sizes(
            64,
            128,
            5,
            4,
            1,
            32,
            sliding_window=WINDOW,
            layer_types=[FULL] + [SLIDING] * 3 + [FULL],
            layer_rope_theta=[0, 500000, 500000, 500000, 0],
            rope_parameters=default_rope(500000.0),
            qk_scale_factor=1.5,  # published: 3.87, where rounded keys alone move tiny models
            post_norm_eps=0.01,  # large, so that a mix-up with rms_norm_eps shows
            output_multiplier=0.5,
            final_logit_softcapping=2.0,
        ),
        ["hf_bf16", "mlx4"],
    ),
    "llama": (
        "llama",
        sizes(
            64,
            128,
            2,
            4,
            2,
            32,
            attention_bias=True,
            mlp_bias=True,
            rms_norm_eps=1e-5,
            tie_word_embeddings=False,
            rope_parameters=LLAMA3,
        ),
        ["hf_bf16", "mlx4", "gguf"],
    ),
    "smollm2": (
        "llama",
        sizes(
            96,
            192,
            3,
            3,
            1,
            None,
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            rope_parameters=default_rope(100000.0),
        ),
        ["mlx4", "gguf"],
    ),
    "qwen2": (
        "qwen2",
        sizes(
            64,
            128,
            2,
            4,
            2,
            None,
            tie_word_embeddings=True,
            use_sliding_window=False,
            max_window_layers=1,
            rope_parameters=default_rope(1e6),
        ),
        ["hf_bf16", "mlx4", "gguf"],
    ),
    "qwen3": (
        "qwen3",
        sizes(64, 128, 2, 4, 2, 32, tie_word_embeddings=True, rope_parameters=default_rope(1e6)),
        ["mlx4", "gguf"],
    ),
    "qwen3_moe": (
        "qwen3_moe",
        sizes(
            64,
            128,
            3,
            4,
            2,
            32,
            tie_word_embeddings=False,
            moe_intermediate_size=64,
            num_experts=8,
            num_experts_per_tok=2,
            norm_topk_prob=True,
            rope_parameters=default_rope(1e6),
        ),
        ["mlx4", "gguf"],
    ),
}

# Found by find_tiny_seeds.py; 1 elsewhere.
SEEDS = {
    "afmoe": 158,
    "gemma4_moe": 566,
    "llama4": 139,
    "llama4_maverick": 129,
    "llama4_published": 62,
    "llama4_scout": 181,
    "qwen3_moe": 237,
}
