"""Runs the vendors' reference (transformers, float32, eager attention) on a tiny case.

The weights go through a folder that transformers reads, under the names it writes itself, so that
its own loading code decides what a tensor of a checkpoint means.
"""

import json
import pathlib
import tempfile
import warnings

import numpy as np
import safetensors.numpy
import torch
import transformers

from tiny_weights import generate, round_to_bf16

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)

VISION = {
    "num_hidden_layers": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "pos_emb_height": 4,
    "pos_emb_width": 4,
    "max_position_embeddings": 16,
}


def model_class(model_type):
    return {
        "gemma3_text": transformers.Gemma3ForCausalLM,
        "gemma4_text": transformers.Gemma4ForCausalLM,
        "afmoe": transformers.AfmoeForCausalLM,
        "llama4_text": transformers.Llama4ForCausalLM,
        "llama": transformers.LlamaForCausalLM,
        "qwen2": transformers.Qwen2ForCausalLM,
        "qwen3": transformers.Qwen3ForCausalLM,
        "qwen3_moe": transformers.Qwen3MoeForCausalLM,
        "muse_glimmer": transformers.MuseGlimmerForConditionalGeneration,
    }[model_type]


def kind_of(name, model_type, shape):
    """Which of tiny_weights.KINDS a tensor is."""
    centred = model_type in ("gemma3_text", "muse_glimmer")
    if name.endswith("expert_bias"):
        return "expert_bias"
    if name.endswith("per_expert_scale"):
        return "expert_scale"
    if name.endswith("layer_scalar"):
        return "layer_scalar"
    if name.endswith(".bias"):
        return "bias"
    if name.endswith("router.proj.weight"):
        return "wide_router"
    if name.endswith(("router.weight", "router.gate.weight", "mlp.gate.weight")):
        return "router"
    if model_type == "gemma4_text" and name.endswith(("q_norm.weight", "k_norm.weight")):
        return "score_norm"
    if len(shape) == 1:
        final_of_muse = model_type == "muse_glimmer" and ".layers." not in name
        return "centred_norm" if centred and not final_of_muse else "norm"
    return "matrix"


class Reference:
    """One case: its configuration as transformers writes it, its tensors, its logits."""

    def __init__(self, model_type, arguments, seed):
        self.model_type, self.seed = model_type, seed
        self.class_ = model_class(model_type)
        arguments = {key: value for key, value in arguments.items() if value is not None}
        if model_type == "muse_glimmer":
            config = transformers.MuseGlimmerConfig(text_config=arguments, vision_config=VISION)
        else:
            config = self.class_.config_class(**arguments)
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as folder:
            self.class_(config).save_pretrained(folder)
            self.config = json.loads((pathlib.Path(folder) / "config.json").read_text())
            stored = safetensors.numpy.load_file(f"{folder}/model.safetensors")
        # What belongs to images is no part of the case; it keeps transformers' first values.
        self.others = {name: values for name, values in stored.items() if "vision" in name}
        self.kinds = {
            name: kind_of(name, model_type, values.shape)
            for name, values in sorted(stored.items())
            if name not in self.others
        }
        self.shapes = {name: list(stored[name].shape) for name in self.kinds}

    def weights(self):
        return {
            name: generate(name, self.shapes[name], kind, self.seed)
            for name, kind in self.kinds.items()
        }

    def model(self, weights, rounded_scales=False):
        """`rounded_scales`: embedding scales as a bfloat16 checkpoint has them."""
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(self.config))
            safetensors.numpy.save_file(
                {name: np.ascontiguousarray(v) for name, v in (weights | self.others).items()},
                f"{folder}/model.safetensors",
                {"format": "pt"},
            )
            model, info = self.class_.from_pretrained(
                folder,
                dtype=torch.float32,
                attn_implementation="eager",
                output_loading_info=True,
            )
        assert not info["missing_keys"] and not info["unexpected_keys"], info
        model = model.eval()
        for module in model.modules() if rounded_scales else []:
            if hasattr(module, "embed_scale"):
                scale = round_to_bf16(module.embed_scale.numpy())
                module.embed_scale.copy_(torch.from_numpy(scale))
        return model

    def logits(self, ids, weights, rounded_scales=False):
        """[len(ids), vocabulary] of one full forward."""
        with torch.no_grad():
            model = self.model(weights, rounded_scales)
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
        values = logits.float().numpy()
        assert np.isfinite(values).all()
        return values
