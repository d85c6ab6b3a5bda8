"""Makes tests/golden/tiny: what transformers says of tiny models of every family.

    python make_tiny_goldens.py [CASE ...]        (environment: README.md here; about a minute)

No weights are written: tests make them again from the rule in tiny_weights.py. Each case gives

    <case>.json           seed, ids, the tensors (name, shape, kind) and its forms (tiny_forms.py)
    <case>.hf.logits.f32  [ids, vocabulary] little-endian float32 of one full forward, float32
                          weights; also what the GGUF form must give
    <case>.mlx4.logits.f32, <case>.hf_bf16.logits.f32    the same with the weights as a reader of
                          that form gets them, computed in float32

Llama 4 has transformers' mask of the full forward, in which a position's view depends on its
position only (its cached decoding does not keep that at chunk edges). AFMoE: compare logits, not
tokens.
"""

import hashlib
import json
import pathlib
import sys

import numpy as np

from tiny_cases import CASES, IDS, SEEDS
from tiny_forms import effective_weights, hf_form, mlx_form, stored_arrays
from tiny_gguf_form import gguf_form
from tiny_reference import Reference
from tiny_weights import KINDS

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "tiny"


def make_forms(case, reference, arguments, wanted, weights):
    forms = {"hf": hf_form(case, reference)}
    if "hf_bf16" in wanted:
        forms["hf_bf16"] = hf_form(case, reference, "BF16")
    if "mlx4" in wanted:
        forms["mlx4"] = mlx_form(case, reference, arguments, weights)
    if "gguf" in wanted:
        forms["gguf"] = gguf_form(reference, arguments)
    return forms


def content_hash(form, weights):
    """SHA-256 of what a form stores: each tensor's name, a line feed, its bytes."""
    digest = hashlib.sha256()
    for tensor in form["tensors"]:
        for name, _, _, content in stored_arrays(tensor, weights):
            digest.update(name.encode() + b"\n" + content)
    return digest.hexdigest()


def is_bf16(form):
    return form.get("config", {}).get("dtype") == "bfloat16"


def write_logits(name, logits):
    (FOLDER / name).write_bytes(np.ascontiguousarray(logits, dtype="<f4").tobytes())


def lines(value, indent=0):
    """JSON with one tensor or key a line."""
    space = " " * indent
    if isinstance(value, dict) and indent < 4:
        body = [f"{space} {json.dumps(k)}: {lines(v, indent + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(body) + "\n" + space + "}"
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        body = [f"{space} {json.dumps(item)}" for item in value]
        return "[\n" + ",\n".join(body) + "\n" + space + "]"
    return json.dumps(value)


def make_case(case):
    model_type, arguments, wanted = CASES[case]
    reference = Reference(model_type, arguments, SEEDS.get(case, 1))
    weights = reference.weights()
    forms = make_forms(case, reference, arguments, wanted, weights)
    spans = {}
    for name, form in forms.items():
        own = name not in ("hf", "gguf")
        form["logits"] = f"{case}.{name if own else 'hf'}.logits.f32"
        form["sha256"] = content_hash(form, weights)
        if name == "gguf":
            continue
        used = effective_weights(form, weights) if own else weights
        logits = reference.logits(IDS, used, rounded_scales=is_bf16(form))
        write_logits(form["logits"], logits)
        spans[name] = float(logits.max() - logits.min())
    content = {
        "case": case,
        "seed": reference.seed,
        "vocabulary": arguments["vocab_size"],
        "ids": IDS,
        "kinds": {kind: list(KINDS[kind]) for kind in sorted(set(reference.kinds.values()))},
        "tensors": [
            {"name": name, "shape": reference.shapes[name], "kind": kind}
            for name, kind in reference.kinds.items()
        ],
        "forms": forms,
    }
    text = lines(content) + "\n"
    (FOLDER / f"{case}.json").write_text(text)
    shown = ", ".join(f"{name} {span:.2f}" for name, span in spans.items())
    print(f"{case}: {list(forms)}; {len(text)} bytes; range of logits: {shown}")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for case in sys.argv[1:] or CASES:
        make_case(case)


if __name__ == "__main__":
    main()
