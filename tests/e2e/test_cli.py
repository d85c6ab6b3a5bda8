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


@pytest.mark.parametrize("model", ["smollm2"], indirect=True)
def test_bench_reports_json_with_a_stable_hash(servers, model):
    flags = [
        "bench",
        "-m",
        servers.model_path(model),
        "--depths",
        "0,70",
        "--rows",
        "1,16",
        "--repetitions",
        "1",
        "--log-level",
        "off",
    ]
    reports = [json.loads(run(servers, *flags).stdout) for _ in range(2)]
    assert [(r["depth"], r["rows"]) for r in reports[0]["results"]] == [
        (0, 1),
        (0, 16),
        (70, 1),
        (70, 16),
    ]
    assert all(
        r["milliseconds"] > 0 and r["tokens_per_second"] > 0 for r in reports[0]["results"]
    )
    assert reports[0]["logits_hash"] == reports[1]["logits_hash"]


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
