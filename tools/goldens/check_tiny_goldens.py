"""Compares tests/golden/tiny with other implementations, as far as those know the families.

    python check_tiny_goldens.py [CASE ...]

* MLX forms: written as folders, loaded by mlx-lm (float32), logits against ours; and MLX's own
  quantiser against tiny_weights.quantize_affine, bit for bit.
* GGUF forms: written by gguf-py's writer, their tensors loaded by transformers' GGUF reader, where
  it has the architecture (config from the hf form); logits against that form's.

Known: mlx-lm ignores final_logit_softcapping in gemma3; llama4's q/k norm has eps 1e-6 there.
"""

import json
import pathlib
import sys
import tempfile

import gguf
import mlx.core as mx
import numpy as np
import torch
from mlx_lm.utils import load_model

from make_tiny_goldens import FOLDER
from tiny_cases import CASES
from tiny_forms import stored_values
from tiny_reference import model_class
from tiny_weights import generate, pack_affine, quantize_affine, round_to

MLX_TYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}


def case_weights(case):
    return {
        t["name"]: generate(t["name"], t["shape"], t["kind"], case["seed"]) for t in case["tensors"]
    }


def golden(case, form):
    raw = np.frombuffer((FOLDER / form["logits"]).read_bytes(), dtype="<f4")
    return raw.reshape(len(case["ids"]), case["vocabulary"])


def mlx_arrays(form, weights):
    arrays = {}
    for tensor in form["tensors"]:
        values = stored_values(tensor, weights)
        if tensor["type"] != "affine":
            arrays[tensor["name"]] = mx.array(values).astype(MLX_TYPES[tensor["type"]])
            continue
        type_ = tensor["scales"]
        values = round_to(values, type_)
        ours = quantize_affine(values, tensor["bits"], tensor["group"], type_)
        packed = mx.array(pack_affine(ours[0], tensor["bits"]))
        scales, biases = (mx.array(a).astype(MLX_TYPES[type_]) for a in ours[1:])
        theirs = mx.quantize(
            mx.array(values).astype(MLX_TYPES[type_]),
            group_size=tensor["group"],
            bits=tensor["bits"],
        )
        for mine, other in zip((packed, scales, biases), theirs):
            assert mx.array_equal(mine, other), f"{tensor['name']}: MLX quantises it otherwise"
        for part, array in (("weight", packed), ("scales", scales), ("biases", biases)):
            arrays[f"{tensor['name']}.{part}"] = array
    return arrays


def mlx_logits(case, form, weights):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "config.json").write_text(json.dumps(form["config"]))
        arrays = mlx_arrays(form, weights)
        arrays = {  # mlx-lm computes in the type of these
            name: a if a.dtype == mx.uint32 else a.astype(mx.float32) for name, a in arrays.items()
        }
        mx.save_safetensors(str(folder / "model.safetensors"), arrays, {"format": "mlx"})
        model, _ = load_model(folder)
        return np.array(model(mx.array([case["ids"]]))[0].astype(mx.float32))


def write_gguf(path, case, form, weights):
    arch = form["metadata"][0][2]
    writer = gguf.GGUFWriter(path, arch)
    add = {
        "u32": writer.add_uint32,
        "f32": writer.add_float32,
        "bool": writer.add_bool,
        "text": writer.add_string,
        "bools": writer.add_array,
        "i32s": writer.add_array,
    }
    for key, type_, value in form["metadata"][1:]:
        add[type_](key, value)
    writer.add_token_list([f"<{i}>" for i in range(case["vocabulary"])])
    for tensor in form["tensors"]:
        writer.add_tensor(tensor["name"], np.ascontiguousarray(stored_values(tensor, weights)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_logits(case, form, weights, model_type):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.gguf"
        write_gguf(path, case, form, weights)
        class_ = model_class(model_type)
        hf = case["forms"]["hf"]["config"]
        config = class_.config_class(**hf.get("text_config", hf))  # its reader misses much of it
        model, info = class_.from_pretrained(
            folder,
            gguf_file=path.name,
            config=config,
            dtype=torch.float32,
            attn_implementation="eager",
            output_loading_info=True,
        )
        missing = sorted(info["missing_keys"])
        if missing:
            words = sorted({name.partition(".layers.")[2].partition(".")[2] for name in missing})
            print(f"  (transformers' reader knows no GGUF name of {', '.join(words)}; set here)")
        parameters = dict(model.named_parameters()) | dict(model.named_buffers())
        with torch.no_grad():
            for name in missing:
                parameters[name].copy_(torch.from_numpy(weights[name]))
            return model.eval()(input_ids=torch.tensor([case["ids"]])).logits[0].numpy()


def report(case, form, logits):
    expected = golden(case, form)
    return f"{np.abs(logits - expected).max() / (expected.max() - expected.min()):.1e} of the range"


def main():
    for name in sys.argv[1:] or CASES:
        case = json.loads((FOLDER / f"{name}.json").read_text())
        weights = case_weights(case)
        for form_name, run in (
            ("mlx4", lambda form: mlx_logits(case, form, weights)),
            ("gguf", lambda form: gguf_logits(case, form, weights, CASES[name][0])),
        ):
            form = case["forms"].get(form_name)
            if form is None:
                continue
            try:
                print(f"{name} {form_name}: {report(case, form, run(form))}", flush=True)
            except Exception as error:  # a library that does not know the family says so here
                print(
                    f"{name} {form_name}: not compared: {type(error).__name__}: {str(error)[:300]}"
                )


if __name__ == "__main__":
    main()
