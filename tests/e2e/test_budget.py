# A budget that holds less than a full context is said at the start, not found out by a request.
import subprocess

import pytest

FLAGS = ("--prompt-cache-capacity", "64M")


def test_a_context_that_was_asked_for_and_does_not_fit_is_an_error(servers):
    done = subprocess.run(
        [servers.binary(), "serve", "-m", servers.model_path("smollm2"), "--port", "0"]
        + ["--ctx-size", "8192", "--log-level", "error", *FLAGS],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    # 30 layers of 3 heads of 64 keys and 64 values of 2 bytes; 128 pages and the one in work.
    needed = 30 * 3 * 64 * 2 * 2 * (8192 + 64)
    for word in ("--ctx-size", "8192 tokens", f"{needed} bytes", f"{64 << 20} bytes", "holds"):
        assert word in done.stderr, done.stderr


def test_otherwise_the_context_is_what_fits(servers):
    server = servers.get("smollm2", *FLAGS)
    context = server.get("/v1/models")["data"][0]["max_model_len"]
    token_bytes = 30 * 3 * 64 * 2 * 2
    assert 64 * token_bytes * (context // 64 + 1) <= 64 << 20 < token_bytes * (context + 192)
    # A request without max_tokens may use all of it, and one beyond it gets both numbers.
    messages = [{"role": "user", "content": "Say hello."}]
    assert server.chat(messages, max_tokens=None).finish_reason == "stop"
    longest = server.complete([5] * (context - 1), max_tokens=1)
    assert longest.prompt_tokens == context - 1
    with pytest.raises(Exception, match=str(context)) as caught:
        server.complete([5] * context, max_tokens=1)
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize("size", ["1M", "100K"])
def test_less_than_two_pages_is_an_error(servers, size):
    done = subprocess.run(
        [servers.binary(), "serve", "-m", servers.model_path("smollm2"), "--port", "0"]
        + ["--prompt-cache-capacity", size, "--log-level", "error"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "--prompt-cache-capacity" in done.stderr and "128 tokens" in done.stderr
