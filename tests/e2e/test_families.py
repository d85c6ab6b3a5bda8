# Every family of the request, as tiny random models served over HTTP: a chat grows past windows and
# chunks of 8, hits the cache, and equals the server without one to the byte. And files that are
# wrong end in one line.
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from server import Server
from texts import words

FORMS = [
    ("llama4", "hf"),
    ("llama4", "mlx4"),
    ("afmoe", "mlx4"),
    ("afmoe", "gguf"),
    ("gemma4", "hf"),
    ("gemma4", "gguf"),
    ("gemma4_moe", "mlx4"),
    ("muse_glimmer", "hf"),
    ("muse_glimmer", "mlx4"),
    ("qwen3_moe", "gguf"),
]
CHUNK = 8


def write_checkpoint(case, form, folder, *flags):
    program = Path(os.environ["REPRISE_BINARY"]).parent / "tests/support/tiny_checkpoint"
    subprocess.run([program, case, form, folder, *flags], check=True, stdout=subprocess.DEVNULL)
    files = list(Path(folder).glob("*.gguf"))
    return str(files[0] if files else folder)


@pytest.fixture(scope="module", params=FORMS, ids=lambda form: "_".join(form))
def pair(request, tmp_path_factory):
    """The same tiny model with the prompt cache on and off."""
    path = write_checkpoint(*request.param, tmp_path_factory.mktemp("model"))
    binary = os.environ["REPRISE_BINARY"]
    warm = Server(binary, path)
    cold = Server(binary, path, ["--prompt-cache=off"])
    yield warm, cold
    warm.stop()
    cold.stop()


def test_a_chat_hits_from_its_second_turn_on_and_equals_the_cold_one(pair):
    warm, cold = pair
    warm.reset_cache()
    messages = []
    for turn in range(1, 4):
        messages.append({"role": "user", "content": words(30, seed=turn)})
        answer = warm.chat(messages)
        assert (answer.cached_tokens > 0) == (turn > 1)
        assert answer == cold.chat(messages), f"turn {turn}"
        assert answer == warm.chat(messages, stream=True), f"turn {turn}, stream from the cache"
        messages.append({"role": "assistant", "content": words(8, seed=100 + turn)})


def test_prompts_that_end_at_chunk_and_window_edges_equal_the_cold_ones(pair):
    warm, cold = pair
    warm.reset_cache()
    ids = cold.complete(words(80, seed=9), max_tokens=1).prompt_token_ids
    for length in (CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 64, 65, 8 * CHUNK * 2, 129):
        prompt = ids[:length]
        first = warm.complete(prompt, max_tokens=2 * CHUNK + 1)
        assert first == cold.complete(prompt, max_tokens=2 * CHUNK + 1), length
        resumed = warm.complete(prompt + first.token_ids + ids[:5], max_tokens=4)
        assert resumed == cold.complete(prompt + first.token_ids + ids[:5], max_tokens=4), length
    assert warm.stats()["hits"] > 0


def inspect(path):
    return subprocess.run(
        [os.environ["REPRISE_BINARY"], "inspect", path], capture_output=True, text=True
    )


def test_inspect_shows_the_span_groups(tmp_path):
    told = inspect(write_checkpoint("llama4", "hf", tmp_path / "llama4")).stdout
    assert "chunk 8" in told and "full" in told and "experts" in told
    told = inspect(write_checkpoint("gemma4", "hf", tmp_path / "gemma4")).stdout
    assert "window 8" in told and "full" in told and "safetensors" in told


def change_config(folder, **changes):
    path = Path(folder) / "config.json"
    config = json.loads(path.read_text())
    config.update(changes)
    path.write_text(json.dumps(config))


WRONG = {
    "truncated": lambda folder: os.truncate(folder / "model.safetensors", 5000),
    "shape": lambda folder: change_config(folder, intermediate_size=192),
    "missing tensor": lambda folder: change_config(folder, num_hidden_layers=40),
    "unknown architecture": lambda folder: change_config(folder, model_type="abacus"),
    "unknown quantization": lambda folder: change_config(
        folder, quantization_config={"quant_method": "awq", "bits": 4}
    ),
    "longrope": lambda folder: change_config(
        folder, rope_parameters=None, rope_scaling={"rope_type": "longrope", "factor": 4}
    ),
    "no tokenizer": lambda folder: os.remove(folder / "tokenizer.json"),
    "no config": lambda folder: os.remove(folder / "config.json"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_end_in_one_line(name, tmp_path):
    folder = Path(write_checkpoint("qwen3", "hf", tmp_path / "model"))
    WRONG[name](folder)
    run = subprocess.run(
        [os.environ["REPRISE_BINARY"], "generate", "-m", folder, "-p", "x", "--log-level", "off"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 1
    assert run.stdout == ""
    assert len(run.stderr.strip().splitlines()) == 1, run.stderr
    assert run.stderr.startswith("reprise: ")
    shutil.rmtree(folder)


def test_plain_weights_are_quantised_on_load(tmp_path):
    folder = write_checkpoint("qwen3", "hf", tmp_path / "model")
    binary = os.environ["REPRISE_BINARY"]
    answers = []
    for kind in ("none", "q8_0", "q4"):
        server = Server(binary, folder, ["--quantize", kind])
        answers.append(server.complete(words(20, seed=3), max_tokens=4).logprobs)
        server.stop()
    assert len(set(answers)) == 3
