# Bad input gets a clear error in OpenAI's form, clients that leave cost nothing, the server lives.
import http.client
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest
from server import Server
from texts import words

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
HELLO = [{"role": "user", "content": "Hello"}]


def post(server, path, body, headers=None):
    """Status and parsed body of a POST with any bytes."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, {"Content-Type": "application/json", **(headers or {})})
    reply = connection.getresponse()
    result = reply.status, json.loads(reply.read())
    connection.close()
    return result


def chat(**fields):
    return {"model": "test", "messages": HELLO, "max_tokens": 4, **fields}


MALFORMED = [
    (CHAT, b"", 400, None),
    (CHAT, b"{", 400, None),
    (CHAT, b"[]", 400, None),
    (CHAT, b'{"model":"test","messages":[],"messages":[]}', 400, None),
    (CHAT, b"[" * 100_000, 400, None),
    (CHAT, b'{"model":"test","messages":"\xff"}', 400, None),
    (CHAT, {"model": "test"}, 400, "messages"),
    (CHAT, chat(messages=[]), 400, "messages"),
    (CHAT, chat(messages="hi"), 400, "messages"),
    (CHAT, chat(messages=[{"content": "hi"}]), 400, "messages[0].role"),
    (CHAT, chat(messages=[{"role": "king", "content": "hi"}]), 400, "messages[0].role"),
    (CHAT, chat(messages=[{"role": "user", "content": 5}]), 400, "messages[0].content"),
    (CHAT, chat(messages=[{"role": "user", "content": None}]), 400, "messages[0].content"),
    (
        CHAT,
        chat(messages=[{"role": "user", "content": [{"type": "image_url"}]}]),
        400,
        "messages[0].content[0].type",
    ),
    (CHAT, chat(max_tokens=0), 400, "max_tokens"),
    (CHAT, chat(max_tokens=2.5), 400, "max_tokens"),
    (CHAT, chat(max_tokens="many"), 400, "max_tokens"),
    (CHAT, chat(max_tokens=10**9), 400, None),
    (CHAT, chat(temperature=-1), 400, "temperature"),
    (CHAT, chat(temperature="hot"), 400, "temperature"),
    (CHAT, chat(top_p=7), 400, "top_p"),
    (CHAT, chat(stop=5), 400, "stop"),
    (CHAT, chat(stop=[""]), 400, None),
    (CHAT, chat(stop=["x"] * 100), 400, "stop"),
    (CHAT, chat(n=200), 400, "n"),
    (CHAT, chat(top_logprobs=10_000, logprobs=True), 400, "top_logprobs"),
    (CHAT, chat(top_logprobs=2), 400, "top_logprobs"),
    (CHAT, chat(stream="yes"), 400, "stream"),
    (CHAT, chat(seed=1.5), 400, "seed"),
    (CHAT, chat(tools=[{"type": "function"}]), 400, "tools[0].function"),
    (CHAT, chat(response_format={"type": "xml"}), 400, "response_format.type"),
    (CHAT, chat(logit_bias={"x": 1}), 400, "logit_bias"),
    (CHAT, chat(model="gpt-4"), 404, "model"),
    (COMPLETIONS, {"model": "test"}, 400, "prompt"),
    (COMPLETIONS, {"model": "test", "prompt": {}}, 400, "prompt"),
    (COMPLETIONS, {"model": "test", "prompt": [-1]}, 400, None),
    (COMPLETIONS, {"model": "test", "prompt": [10**7]}, 400, None),
    (COMPLETIONS, {"model": "test", "prompt": "x", "suffix": "y"}, 400, "suffix"),
    (COMPLETIONS, {"model": "test", "prompt": "x", "logprobs": 6}, 400, "logprobs"),
    ("/v1/nothing", {}, 404, None),
    ("/v1/models", {}, 405, None),
]


@pytest.fixture(scope="module")
def server(servers):
    return servers.get("smollm2")


def test_malformed_requests(server):
    pid = server.pid
    for path, body, status, param in MALFORMED:
        got, reply = post(server, path, body)
        assert got == status, (path, str(body)[:80], reply)
        assert set(reply["error"]) == {"message", "type", "param", "code"}, reply
        assert reply["error"]["message"] and reply["error"]["type"]
        if param is not None:
            assert reply["error"]["param"] == param, (body, reply)
        assert server.complete("One two three", max_tokens=1).completion_tokens == 1
    assert server.is_running() and server.pid == pid


def test_a_prompt_beyond_the_context_names_both_numbers(server):
    limit = 8192
    status, reply = post(
        server, COMPLETIONS, {"model": "test", "prompt": [5] * 9000, "max_tokens": 1}
    )
    assert status == 400
    assert reply["error"]["code"] == "context_length_exceeded"
    assert "9000" in reply["error"]["message"] or "9001" in reply["error"]["message"]
    assert str(limit) in reply["error"]["message"]


def test_a_body_over_the_limit(servers):
    server = servers.get("smollm2", "--max-body", "64K")
    status, reply = post(server, CHAT, chat(messages=[{"role": "user", "content": "x" * 100_000}]))
    assert status == 413 and reply["error"]["message"]
    assert server.chat(HELLO, max_tokens=1).completion_tokens == 1


def test_megabytes_of_prompt_are_refused_unread(server):
    """Tokenising them would take seconds, in which no other request is prepared."""
    begin = time.monotonic()
    before = server.resident_bytes()
    for piece in ("x ", "é", " ", "<|im_start|>"):
        text = piece * ((12 << 20) // len(piece.encode()))
        requests = (
            (COMPLETIONS, {"prompt": text}),
            (CHAT, {"messages": [dict(HELLO[0], content=text)]}),
        )
        for path, body in requests:
            status, reply = post(server, path, json.dumps(body, ensure_ascii=False).encode())
            assert status == 400 and reply["error"]["code"] == "context_length_exceeded"
            assert "8192" in reply["error"]["message"]
    assert time.monotonic() - begin < 20  # it took 100 and more
    assert server.resident_bytes() - before < 300e6  # it took 2 GB
    assert server.complete("One two three", max_tokens=1).completion_tokens == 1


def test_errors_of_the_connection_carry_the_cors_header(servers):
    server = servers.get("smollm2", "--api-key", "alpha,beta", "--cors-origin", "*")
    with server.connect() as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://a\r\n"
            b"Content-Length: 999999999\r\n\r\n"
        )
        reply = connection.recv(65536)
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"\r\naccess-control-allow-origin: *\r\n" in reply


def pages_add_up(stats):
    """With nothing running, the ledger holds what the cache holds and nothing else."""
    return stats["sequence_bytes"] == 0 and stats["used_bytes"] == stats["cache_bytes_all"]


def test_a_client_that_leaves_in_mid_stream_stops_the_work(server):
    body = json.dumps(
        chat(
            stream=True,
            max_tokens=4000,
            temperature=1,
            messages=[{"role": "user", "content": "Tell a very long story."}],
        )
    ).encode()
    connection = server.connect()
    connection.sendall(
        b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
        % (CHAT.encode(), len(body), body)
    )
    received = b""
    while received.count(b"data: ") < 5:
        received += connection.recv(65536)
    connection.close()
    left = time.monotonic()
    stats = server.wait_until_idle(5)
    # Within 250 ms, and what a busy machine adds to a thread's turn.
    assert time.monotonic() - left < 2
    assert pages_add_up(stats)
    assert server.complete("One two three", max_tokens=1).completion_tokens == 1


def test_a_client_that_leaves_during_a_long_prefill_stops_the_work(server):
    for stream in (False, True):
        body = json.dumps(
            {
                "model": "test",
                "prompt": words(5000, seed=stream),
                "max_tokens": 4,
                "stream": stream,
            }
        ).encode()
        connection = server.connect()
        connection.sendall(
            b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
            % (COMPLETIONS.encode(), len(body), body)
        )
        deadline = time.monotonic() + 10
        while server.stats()["running"] == 0:
            assert time.monotonic() < deadline
        connection.close()
        left = time.monotonic()
        stats = server.wait_until_idle(10)
        assert time.monotonic() - left < 3  # the whole prefill takes far longer than two steps
        assert pages_add_up(stats)


def test_slow_and_silent_clients_do_not_hold_others(server):
    idle = [server.connect() for _ in range(50)]
    half = server.connect()
    half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{")
    assert server.complete("One two three", max_tokens=2).completion_tokens == 2
    for connection in [*idle, half]:
        connection.close()
    assert pages_add_up(server.wait_until_idle())


def test_reset_frees_every_page(server):
    server.complete(words(300, seed=1), max_tokens=2)
    server.wait_until_idle()
    assert server.stats()["used_bytes"] > 0
    outcome = server.reset_cache()
    assert outcome["cleared"] is True and outcome["freed_bytes"] > 0
    stats = server.stats()
    assert stats["used_bytes"] == 0 and stats["entries"] == 0
    assert server.reset_cache()["freed_bytes"] == 0


def test_signals_stop_the_server_and_running_replies_finish(servers):
    server = Server(servers.binary(), servers.model_path("smollm2"))
    body = json.dumps(chat(stream=True, max_tokens=60, temperature=1, seed=1)).encode()
    connection = server.connect()
    connection.sendall(
        b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
        % (CHAT.encode(), len(body), body)
    )
    received = connection.recv(65536)
    server._process.send_signal(signal.SIGTERM)
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionError:
            break
        if not piece:
            break
        received += piece
    assert b"[DONE]" in received
    while server.is_running():  # more of them, through every moment of its end
        server._process.send_signal(signal.SIGTERM)
    assert server.stop() == 0


def test_wrong_starts_end_in_one_line(servers, tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\x03\0\0\0" + b"\xff" * 40)
    empty = tmp_path / "empty"
    empty.mkdir()
    cases = [
        (["serve", "-m", str(tmp_path / "none.gguf")], 1, "none.gguf"),
        (["serve", "-m", str(broken)], 1, ""),
        (["serve", "-m", str(tmp_path)], 1, "2 GGUF models, expected 1"),
        (["serve", "-m", str(empty)], 1, "config.json"),
        (["serve", "-m", str(tmp_path / "pipe.gguf")], 1, "regular file"),
        (["serve"], 1, "model"),
        (["serve", "--prot", "1"], 2, "--port"),
        (["serv"], 2, "serve"),
        (["serve", "-m", "x", "--isa", "sse"], 1, "--isa"),
        (["serve", "--port", "99999"], 2, "65535"),
        (["inspect", str(broken)], 1, ""),
    ]
    for arguments, code, word in cases:
        done = subprocess.run(
            [servers.binary(), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == code, (arguments, done)
        assert word in done.stderr and len(done.stderr.strip().splitlines()) == 1, (
            arguments,
            done.stderr,
        )


def refused_start(servers, model, arguments, limit=None):
    """The one line of a start that must fail, with an address space of `limit` bytes."""

    def limit_address_space():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run(
        [servers.binary(), "serve", "--port", "0", "--log-level", "error", "-m", model, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=limit_address_space if limit else None,
    )
    assert done.returncode == 1 and done.stdout == "", (arguments, limit, done)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("reprise: "), (arguments, limit, done.stderr)
    return lines[0]


def test_what_the_system_refuses_at_the_start_is_one_line_with_the_numbers(servers):
    smollm2, gemma3 = servers.model_path("smollm2"), servers.model_path("gemma3")
    limit = 1_600_000_000
    for arguments in ([], ["--prompt-cache-capacity", "3GiB"]):
        line = refused_start(servers, smollm2, arguments, limit)
        assert "--prompt-cache-capacity" in line and "span group 1 of 1" in line
        assert f"{limit} bytes" in line
    assert f"got {3 << 30} bytes" in line
    # Each of both groups reserves the whole capacity; the sum of them is too much.
    line = refused_start(servers, gemma3, ["--prompt-cache-capacity", "1GiB"], 2_500_000_000)
    assert "span group 2 of 2" in line
    for capacity in ("200000GiB", "900000000GiB"):
        line = refused_start(servers, gemma3, ["--prompt-cache-capacity", capacity])
        assert "--prompt-cache-capacity" in line
    line = refused_start(servers, smollm2, ["-t", "1024"], 2_500_000_000)
    asked = re.match(r"reprise: --threads: asked for 1024 threads, .* gave (\d+) ", line)
    assert asked and 1 <= int(asked[1]) < 1024, line


def test_a_rope_that_turns_too_far_is_refused_by_name(servers, tmp_path):
    with open(servers.model_path("smollm2"), "rb") as model:
        content = bytearray(model.read())
    key = b"llama.rope.freq_base" + struct.pack("<I", 6)  # a float32 follows
    at = content.index(key) + len(key)
    content[at : at + 4] = struct.pack("<f", 1e-12)
    broken = tmp_path / "rope.gguf"
    broken.write_bytes(content)
    line = refused_start(servers, str(broken), [])
    assert "rope_theta: got 9.99" in line and "8192 tokens" in line and "134217728" in line


@pytest.mark.parametrize("size", [0, 1, 23, 24, 1000, 100_000, 1_800_000, 50_000_000])
def test_cut_model_files_end_in_one_line(servers, tmp_path, size):
    cut = tmp_path / "cut.gguf"
    with open(servers.model_path("smollm2"), "rb") as model:
        cut.write_bytes(model.read(size))
    done = subprocess.run(
        [servers.binary(), "generate", "-m", str(cut), "-p", "x"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "cut.gguf" in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_line_that_cannot_be_answered_does_not_end_the_chat(servers):
    lines = b"\n\na\xff\xfe\n" + b"word " * 9000 + b"\nSay hello.\n"
    done = subprocess.run(
        [servers.binary(), "run", "-m", servers.model_path("smollm2"), "-n", "4"],
        input=lines,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0 and len(done.stdout.strip()) > 0
    assert b"not UTF-8" in done.stderr
    assert b"8192" in done.stderr and b"tokens" in done.stderr
