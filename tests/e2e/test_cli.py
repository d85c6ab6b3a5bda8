# The commands that need no server.
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from texts import words

ROOT = Path(__file__).resolve().parents[2]


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
        r"\[\d+ prompt tokens, 0 cached, .* 12 tokens at [\d.]+ tokens/s; cut at 12 tokens by -n\]",
        done.stderr,
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
    assert re.search(r"^weights +[\d.]+ MiB in memory", table, re.M), table
    assert re.search(r"^bandwidth +[\d.]+ GB/s .* by \d threads? ", table, re.M), table
    assert re.search(r"^spread: .*overhead: .*of it: .*logits: ", table, re.M), table
    assert re.search(r"^logits [0-9a-f]{32}$", table, re.M), table


@pytest.mark.parametrize("model", ["smollm2"], indirect=True)
def test_what_cannot_be_written_is_an_error(servers, model):
    path = servers.model_path(model)
    url = servers.get("smollm2").url
    commands = [
        ["--help"],
        ["--version"],
        [],
        ["serve", "--help"],
        ["options"],
        ["inspect", path],
        ["generate", "-m", path, "-p", "x", "-n", "2"],
        ["cache", "--url", url],
        ["cache", "--url", url, "--json"],
        ["bench", "-m", path, "--depths", "0", "--rows", "1", "--repetitions", "1", "-o", "json"],
    ]
    for command in commands:
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [servers.binary(), *command],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=300,
            )
        assert done.returncode == (1 if command else 2), command
        line = "reprise: cannot write standard output: No space left on device\n"
        assert line in done.stderr, (command, done.stderr)
    closed = subprocess.run(
        [servers.binary(), "options"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: os.close(1),
    )
    assert closed.returncode == 1 and "Bad file descriptor" in closed.stderr
    # A reader that has enough is no error worth a word.
    left = subprocess.run(
        ["/bin/sh", "-c", f"{servers.binary()} options | head -1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert left.stdout.startswith("| flag") and left.stderr == ""


def test_what_cannot_work_is_refused_before_loading(servers):
    path = servers.model_path("smollm2")
    taken = str(servers.get("smollm2").port)
    for flags, words in (
        (["serve", "--port", taken], f"cannot listen on 127.0.0.1 port {taken}: Address already"),
        (["serve", "--port", "0", "-c", "9999999"], "--ctx-size: got 9999999, but the model was"),
        (["generate", "-p", "x", "-c", "9999999"], "--ctx-size: got 9999999, but the model was"),
    ):
        done = run(servers, *flags, "-m", path)
        assert done.returncode == 1
        assert done.stderr.startswith("reprise: ") and words in done.stderr  # nothing was packed
        assert len(done.stderr.splitlines()) == 1


def test_a_quiet_log_has_no_progress(servers):
    path = servers.model_path("smollm2")
    for level, shown in (("info", True), ("warn", False), ("off", False)):
        done = run(servers, "generate", "-m", path, "-p", "x", "-n", "1", "--log-level", level)
        assert done.returncode == 0
        assert ("packing weights" in done.stderr) == shown, done.stderr
        assert re.search(r"\d prompt tokens?, .*; 1 token; cut at 1 token by -n\]", done.stderr)


def test_commands_in_a_pipe(servers):
    done = run(
        servers,
        "run",
        "-m",
        servers.model_path("smollm2"),
        "-n",
        "2",
        text="/help\n\n   \n/exti\nHello\n/bye\nnobody reads this\n",
    )
    assert done.returncode == 0
    assert "Alt-Enter" in done.stdout
    assert 'unknown command "/exti"' in done.stderr
    assert len(re.findall(r"prompt tokens?,", done.stderr)) == 1


def test_inspect_shows_how_a_folder_is_quantised(servers, tmp_path):
    folder = tmp_path / "model"
    program = Path(servers.binary()).parent / "tests/support/tiny_checkpoint"
    subprocess.run([program, "gemma4_moe", "mlx4", folder], check=True, stdout=subprocess.DEVNULL)
    done = run(servers, "inspect", "-m", str(folder))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^quantisation +MLX affine, 4 bits in groups of \d+", done.stdout, re.M)
    plain = run(servers, "inspect", servers.model_path("smollm2"))
    assert plain.returncode == 0 and "quantisation" not in plain.stdout


def test_make_checks_its_words_first():
    # Also where these tests run under a make of their own.
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS"))
    }
    for words, message in (
        (["serve", "MODEL=smolm2"], "MODEL=smolm2: expected smollm2, gemma3-270m or the path"),
        (["serve", "PORT=abc"], "PORT=abc: expected a number from 0 to 65535"),
        (["serve", "PORT=70000"], "PORT=70000: expected a number from 0 to 65535"),
        (["-s", "model", "MODEL=foo"], "MODEL=foo: expected smollm2, gemma3-270m or the path"),
    ):
        done = subprocess.run(
            ["make", *words],
            cwd=ROOT,
            env=plain,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode != 0 and done.stdout == ""
        assert done.stderr.startswith("reprise: " + message)


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
