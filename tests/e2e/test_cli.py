# The commands that need no server.
import json
import os
import re
import subprocess

import pytest
from texts import words


def run(servers, *arguments, text=None):
    return subprocess.run(
        [servers.binary(), *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_generate_equals_the_completion_over_http(servers, model, cold):
    prompt = words(30, seed=70)
    done = run(servers, "generate", "-m", servers.model_path(model), "-p", prompt, "-n", "12")
    assert done.returncode == 0, done.stderr
    assert done.stdout == cold.complete(prompt, max_tokens=12).text + "\n"
    assert re.search(
        r"\[\d+ prompt tokens, 0 cached, .* 12 tokens at [\d.]+ tokens/s\]", done.stderr
    )


@pytest.mark.parametrize("model", ["smollm2"], indirect=True)
def test_run_keeps_its_cache_between_turns(servers, model, cold):
    questions = ["Who keeps the lamp of the lighthouse?", "And who repairs the clock?"]
    done = run(
        servers,
        "run",
        "-m",
        servers.model_path(model),
        "-n",
        "16",
        text="\n".join([*questions, "", "/reset", questions[0], "/quit"]) + "\n",
    )
    assert done.returncode == 0, done.stderr
    turns = re.findall(r"\[(\d+) prompt tokens, (\d+) cached", done.stderr)
    prompts, cached = zip(*[(int(p), int(c)) for p, c in turns])
    assert cached[0] == 0
    assert cached[1] >= prompts[0] - 8  # the second turn resumes the first
    assert cached[2] == prompts[2] - 1  # after /reset the first question is replayed
    messages = [{"role": "user", "content": questions[0]}]
    assert done.stdout.startswith(cold.chat(messages, max_tokens=16).text)


def test_inspect_shows_span_groups_and_types(servers, model):
    done = run(servers, "inspect", servers.model_path(model))
    assert done.returncode == 0, done.stderr
    assert "span groups" in done.stdout and "bytes a token" in done.stdout
    assert ("window 512: 15 layers" in done.stdout) == (model == "gemma3")
    assert ("Q4_1" in done.stdout) == (model == "smollm2")


def bench(servers, model, *arguments, **environment):
    flags = ["bench", "-m", servers.model_path(model), "--repetitions", "1", "--log-level", "off"]
    done = subprocess.run(
        [servers.binary(), *flags, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("model", ["smollm2"], indirect=True)
def test_bench_measures_what_was_asked_for_with_one_hash(servers, model):
    cells = ["--depths", "0,70,1000000", "--rows", "1,16"]
    first = json.loads(bench(servers, model, *cells, "--threads", "1"))
    second = json.loads(bench(servers, model, *cells, "--threads", "2,1", "--batch", "3"))
    narrow = json.loads(bench(servers, model, *cells, REPRISE_FORCE_ISA="avx2"))
    assert [(r["kind"], r["depth"], r["rows"], r["batch"]) for r in first["results"]] == [
        ("decode", 0, 1, 1),
        ("prefill", 0, 16, 1),
        ("decode", 70, 1, 1),
        ("prefill", 70, 16, 1),
    ]
    assert {(r["threads"], r["batch"]) for r in second["results"] if r["rows"] == 1} == {
        (2, 1),
        (2, 3),
        (1, 1),
        (1, 3),
    }
    assert first["depths_left_out"] == [1000000]
    for result in first["results"] + second["results"]:
        assert 0 < result["milliseconds_best"] <= result["milliseconds"]
        assert result["tokens_per_second"] > 0
        assert ("overhead" in result) == (result["kind"] == "decode")
    assert first["logits_hash"] == second["logits_hash"] == narrow["logits_hash"]
    memory = first["memory"]
    assert abs(memory["resident_bytes"] / memory["stored_bytes"] - 1) <= 0.03
    size = os.path.getsize(servers.model_path(model))
    assert first["load"]["file_bytes"] == size
    assert first["load"]["ratio"] > 0
    assert 0 < memory["bytes_per_token"] < size


@pytest.mark.parametrize("model", ["smollm2"], indirect=True)
def test_bench_prints_a_table_when_asked(servers, model):
    table = bench(servers, model, "--depths", "0", "--rows", "1,16", "--output", "table")
    assert re.search(r"^decode +0 +1 +1 +\d+ +[\d.]+ +[\d.]+", table, re.M), table
    assert re.search(r"^prefill +0 +16 +1 ", table, re.M), table
    assert re.search(r"^load .* x a plain read of the \d+ MiB", table, re.M), table
    assert re.search(r"^logits [0-9a-f]{32}$", table, re.M), table


def test_a_truncated_model_ends_in_one_line(servers, model, tmp_path):
    path = servers.model_path(model)
    with open(path, "rb") as file:
        head = file.read(os.path.getsize(path) // 2)
    for size in (0, 3, 24, 1000, 100_000, len(head)):
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(head[:size])
        done = run(servers, "generate", "-m", str(broken), "-p", "x")
        assert done.returncode == 1
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
