# Clients that are slow, many, half-closed or lying about their bodies: each gets what HTTP has for
# it, nobody else waits for them, and memory, pages and requests are back where they were.
# REPRISE_HOSTILE_SCALE=10 makes more of them.
import contextlib
import itertools
import json
import os
import select
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
from raw import (
    json_body_of,
    read_to_end,
    read_until,
    request_bytes,
    send_completion,
    status_of,
)
from server import Server
from texts import words

SCALE = float(os.environ.get("REPRISE_HOSTILE_SCALE", "1"))
COMPLETIONS = "/v1/completions"
SEEDS = itertools.count(100)  # prompts that the cache does not know
CONNECTIONS_MAX = 1024  # the server's
RESIDENT_SLACK = 48 << 20  # bytes: the allocator keeps some of what was freed
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
BODY = b'{"model":"test","prompt":"One two three","max_tokens":1,"temperature":0}'


@pytest.fixture(scope="module")
def server(servers):
    """Its own one, so that its memory is that of these tests."""
    server = Server(servers.binary(), servers.model_path("smollm2"))
    server.complete(words(1500, seed=1), max_tokens=4)
    yield server
    assert server.stop() == 0


def exchange(server, data):
    """All that the server says to these bytes until it closes, or is silent for long."""
    with server.connect() as connection:
        connection.sendall(data)
        return read_to_end(connection)


def closing(data):
    """The request, asking for the end of the connection after its reply."""
    return data.replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n", 1)


def answers_a_normal_client(server, seconds=10):
    begin = time.monotonic()
    assert server.complete("One two three", max_tokens=2).completion_tokens == 2
    took = time.monotonic() - begin
    assert took < seconds, took
    return took


def readable(connections, seconds=0):
    """Those that were told something, or closed."""
    poll = select.poll()
    by_number = {connection.fileno(): connection for connection in connections}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(1000 * seconds)]


def at_rest(server):
    """Nothing runs, waits or is held beside the cache."""
    stats = server.wait_until_idle(20)
    health = server.get("/health")
    assert health["running"] == 0 and health["waiting"] == 0
    assert stats["sequence_bytes"] == 0 and stats["used_bytes"] == stats["cache_bytes_all"]
    return stats


@contextlib.contextmanager
def harmless(server, slack=RESIDENT_SLACK):
    """What happens inside leaves the server where it was, and serving."""
    server.reset_cache()
    at_rest(server)
    pid, before = server.pid, server.resident_bytes()
    peak = [before]
    ends = threading.Event()

    def watch():
        while not ends.wait(0.02):
            peak[0] = max(peak[0], server.resident_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ends.set()
        watcher.join()
    assert server.is_running() and server.pid == pid
    answers_a_normal_client(server)
    slack += at_rest(server)["used_bytes"]  # what the cache keeps is no leak
    after = server.resident_bytes()
    mib = 1 << 20
    print(f"resident MiB: {before // mib} before, {peak[0] // mib} peak, {after // mib} after")
    assert peak[0] - before < slack and after - before < slack, (before, peak[0], after)


# ---- bodies


def chunked(pieces, extension=b"", trailer=b""):
    text = b"Transfer-Encoding: chunked\r\n\r\n"
    for piece in pieces:
        text += b"%x%s\r\n%s\r\n" % (len(piece), extension, piece)
    return text + b"0\r\n" + trailer + b"\r\n"


@pytest.mark.parametrize(
    "body",
    [
        chunked([BODY]),
        chunked([BODY[i : i + 1] for i in range(len(BODY))]),
        chunked([BODY[:9], BODY[9:]], extension=b';name="a value"', trailer=b"X-Sum: 1\r\n"),
        b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
    ],
    ids=["one chunk", "bytes", "extensions and trailer", "continue"],
)
def test_bodies_in_every_framing(server, body):
    reply = exchange(server, closing(HEAD) + body)
    assert status_of(reply) == 200, reply
    assert json_body_of(reply)["usage"]["completion_tokens"] == 1


REFUSED = [
    # what, request, status, words of the message
    ("gzip", HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", 415, ["gzip"]),
    ("br", HEAD + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\na", 415, ["br"]),
    ("coding", HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, ["gzip"]),
    ("announced", HEAD + b"Content-Length: 16777217\r\n\r\n", 413, ["16777217", "16777216"]),
    ("chunk", HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413, ["16777216", " 0 "]),
    ("length", HEAD + b"Content-Length: many\r\n\r\n", 400, []),
    ("no length", HEAD + b"Content-Type: application/json\r\n\r\n" + BODY, 411, ["Content-Length"]),
    ("two lengths", HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, []),
    ("equal lengths", HEAD + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400, ["2"]),
    ("both", HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, []),
    ("chunk size", HEAD + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", 400, []),
    ("chunk end", HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", 400, []),
    ("expect", HEAD + b"Expect: a miracle\r\nContent-Length: 1\r\n\r\na", 417, ["a miracle"]),
    ("header", HEAD + b"X: " + b"a" * 70_000 + b"\r\n\r\n", 431, ["65536"]),
    ("headers", HEAD + b"X: a\r\n" * 12_000 + b"\r\n", 431, ["65536"]),
    ("no host", b"GET /health HTTP/1.1\r\n\r\n", 400, ["Host"]),
    ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 100 + b"\r\n\r\n", 400, []),
    ("http/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, []),
]


@pytest.mark.parametrize(
    "data,status,texts", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_is_refused_says_why_in_openais_form(server, data, status, texts):
    reply = exchange(server, data)
    assert status_of(reply) == status, reply
    error = json_body_of(reply)["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["code"]
    for text in texts:
        assert text in error["message"], error
    answers_a_normal_client(server)


def test_continue_comes_before_the_body_and_not_before_a_refusal(server):
    with server.connect() as connection:
        connection.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        assert read_until(connection, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        assert status_of(read_until(connection, b"\r\n\r\n")) == 200
    reply = exchange(server, HEAD + b"Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
    assert status_of(reply) == 413 and b"100 Continue" not in reply


# ---- web pages


@pytest.mark.parametrize(
    "method,path",
    [
        ("POST", COMPLETIONS),
        ("POST", "/v1/cache/reset"),
        ("DELETE", "/v1/responses/resp_1"),
        ("OPTIONS", COMPLETIONS),
        ("GET", "/v1/models"),
    ],
)
def test_a_page_that_nobody_allowed_is_refused(server, method, path):
    def ask(host, origin):
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        head += f"Origin: {origin}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        return exchange(server, head.encode() + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)

    own = f"{server.host}:{server.port}"
    for host, origin in [
        (own, "https://evil.example"),
        (own, "null"),
        ("evil.example", "http://evil.example"),  # its name points here
    ]:
        reply = ask(host, origin)
        assert status_of(reply) == 403 and b"access-control" not in reply, reply
        error = json_body_of(reply)["error"]
        assert error["code"] == "origin_not_allowed"
        assert origin in error["message"] and "--cors-origin" in error["message"]
    assert status_of(ask(own, f"http://{own}")) in (200, 204, 404)


# ---- connections


def test_head_is_get_without_the_body(server):
    get = exchange(server, b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head = exchange(server, b"HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert head == get.split(b"\r\n\r\n")[0] + b"\r\n\r\n"


def test_http_1_0(server):
    data = b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s"
    whole = exchange(server, data % (COMPLETIONS.encode(), len(BODY), BODY))
    assert status_of(whole) == 200 and json_body_of(whole)["choices"]
    streaming = BODY.replace(b"{", b'{"stream":true,', 1)
    stream = exchange(server, data % (COMPLETIONS.encode(), len(streaming), streaming))
    assert status_of(stream) == 200 and b"chunked" not in stream
    assert stream.endswith(b"data: [DONE]\n\n")


def test_pipelined_requests_are_answered_in_their_order(server):
    prompts = [words(5 + i, seed=i) for i in range(6)]
    bodies = [
        {"prompt": prompt, "max_tokens": 3, "temperature": 0, "stream": i % 3 == 2}
        for i, prompt in enumerate(prompts)
    ]
    data = b"".join(request_bytes(COMPLETIONS, body) for body in bodies)
    last = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    received = exchange(server, data + last)
    replies = received.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert len(replies) == 7
    for i, prompt in enumerate(prompts):
        expected = server.complete(prompt, max_tokens=3)
        if i % 3 == 2:
            lines = [line for line in replies[i].split(b"\n") if line.startswith(b"data: {")]
            texts = [json.loads(line[6:])["choices"][0]["text"] for line in lines]
            assert "".join(texts) == expected.text
        else:
            reply = json.loads(replies[i].split(b"\r\n\r\n", 1)[1])
            assert reply["choices"][0]["text"] == expected.text
    assert b'"object":"list"' in replies[6]


def test_read_ahead_is_bounded(server):
    """Whoever sends on while a reply is made has its bytes waiting in its own kernel."""
    with harmless(server), send_completion(
        server, prompt=words(20, seed=5), max_tokens=4000, temperature=1, stream=True
    ) as connection:
        read_until(connection, b"data: ", 2)
        connection.setblocking(False)
        sent, deadline = 0, time.monotonic() + 1
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                sent += connection.send(b"POST / HTTP/1.1\r\n" * 4096)
            with contextlib.suppress(BlockingIOError):
                connection.recv(65536)
        assert sent < 16 << 20  # socket buffers, and 32 KiB of ours


def test_a_half_closed_client_counts_as_gone(server):
    """docs/api.md, Connections."""
    with harmless(server):
        connection = send_completion(server, prompt=words(3000, seed=6), max_tokens=400)
        deadline = time.monotonic() + 10
        while server.get("/health")["running"] == 0:
            assert time.monotonic() < deadline
        connection.shutdown(socket.SHUT_WR)
        begin = time.monotonic()
        assert read_to_end(connection) == b""
        at_rest(server)
        assert time.monotonic() - begin < 5
    # What needs no work is still answered.
    with server.connect() as connection:
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert status_of(read_to_end(connection)) == 200


# ---- slow ones


def test_a_slow_reader_stalls_nobody(server):
    with harmless(server):
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((server.host, server.port))
        body = {
            "prompt": words(10, seed=7),
            "max_tokens": 3000,
            "stream": True,
            "logprobs": 5,
            "temperature": 1,
            "ignore_eos": True,
        }
        slow.sendall(request_bytes(COMPLETIONS, body))
        time.sleep(0.3)
        for i in range(3):
            answer = server.complete(words(30, seed=i), max_tokens=8)
            assert answer.completion_tokens == 8
        slow.close()


def test_a_reader_of_nothing_is_cut_off(server):
    """More than 8 MiB wait, and more comes: docs/api.md, Connections."""
    with harmless(server), socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect((server.host, server.port))
        body = {
            "input": words(10, seed=8),
            "max_output_tokens": 7500,
            "stream": True,
            "top_logprobs": 20,
            "include": ["message.output_text.logprobs"],
            "store": False,
            "ignore_eos": True,
        }
        lazy.sendall(request_bytes("/v1/responses", body))
        deadline = time.monotonic() + 100
        while server.get("/health")["running"] == 0:
            assert time.monotonic() < deadline
        server.wait_until_idle(100)
        received = read_to_end(lazy)
        assert received.startswith(b"HTTP/1.1 200") and len(received) < 16 << 20
        assert b"response.incomplete" not in received


def test_slow_headers_and_bodies_end_with_408(servers):
    """The limits are 10 s and 30 s; the first is waited for, the second only where time is given."""
    server = servers.get("smollm2")
    header, body = server.connect(), server.connect()
    header.sendall(b"GET /health HTTP/1.1\r\nHos")
    body.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
    begin = time.monotonic()
    while not readable([header], seconds=0.5):
        header.sendall(b"t")  # one byte at a time does not help
        assert time.monotonic() - begin < 15
    reply = read_to_end(header)
    assert status_of(reply) == 408 and "10000 ms" in json_body_of(reply)["error"]["message"]
    assert 9 < time.monotonic() - begin < 15
    if SCALE > 1:
        body.settimeout(60)
        reply = read_to_end(body)
        assert status_of(reply) == 408 and "30000 ms" in json_body_of(reply)["error"]["message"]
    body.close()
    answers_a_normal_client(server)


def test_unfinished_bodies_together_are_bounded(server):
    """200 MB announced and sent but for the last byte; 64 MiB are held, the largest give way."""
    size = 10 << 20
    with harmless(server, slack=160 << 20):
        clients = [server.connect() for _ in range(20)]
        for client in clients:
            client.settimeout(5)
            with contextlib.suppress(OSError):
                client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size + b" " * (size - 1))
            answers_a_normal_client(server)
        refused = readable(clients)
        assert len(refused) >= 13
        for client in refused:
            reply = read_to_end(client)
            assert reply == b"" or (status_of(reply) == 503 and b"\r\nretry-after: " in reply)
        for client in clients:
            client.close()


# ---- many of them


def test_ten_thousand_idle_connections(server):
    """Beyond the server's limit the longest waiting ones give way; who asks is answered."""
    count = int(min(10_000, 2500 * SCALE))
    idle, times = [], []
    with harmless(server, slack=96 << 20):
        for i in range(count):
            connection = socket.create_connection((server.host, server.port), timeout=20)
            if i % 3 == 1:
                connection.sendall(b"GET /health HTTP/1.1\r\nHo")
            if i % 3 == 2:
                connection.sendall(HEAD + b"Content-Length: 5000\r\n\r\n{")
            idle.append(connection)
            if i % 500 == 499:
                times.append(answers_a_normal_client(server))
        open_ones = len(idle) - len(readable(idle))
        assert CONNECTIONS_MAX - 50 <= open_ones <= CONNECTIONS_MAX
        for connection in idle:
            connection.close()
    print(f"{count} idle connections, normal requests took {min(times):.2f} to {max(times):.2f} s")


def test_a_thousand_connections_a_second(server):
    seconds = 2 * min(SCALE, 5)
    ends, asked = time.monotonic() + seconds, []

    def come_and_go(number):
        request = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        reset = struct.pack("ii", 1, 0)
        while time.monotonic() < ends:
            with socket.create_connection((server.host, server.port), timeout=20) as connection:
                if number % 2:
                    connection.sendall(request)
                    assert status_of(read_to_end(connection)) == 200
                else:  # gone as soon as it came
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            asked.append(number)

    with harmless(server):
        threads = [threading.Thread(target=come_and_go, args=[i]) for i in range(8)]
        for thread in threads:
            thread.start()
        while time.monotonic() < ends:
            answers_a_normal_client(server)
        for thread in threads:
            thread.join()
    print(f"{len(asked) / seconds:.0f} connections a second")
    assert len(asked) > 250 * seconds  # a shared machine; both ends are on it


def leave(connection, reset):
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def wait_for_counts(server, **counts):
    deadline = time.monotonic() + 10
    while True:
        health = server.get("/health")
        if all(health[name] >= count for name, count in counts.items()):
            return
        assert time.monotonic() < deadline, health
        time.sleep(0.002)


def disconnects(server, reset, stream):
    """Leaves at every stage of a request's life, one after the other."""
    whole = request_bytes(
        COMPLETIONS,
        {"prompt": words(40, seed=8), "max_tokens": 6, "temperature": 0, "stream": stream},
    )
    head_end = whole.index(b"\r\n\r\n") + 4
    # Before the header, within it, before the body, within it, before its last byte.
    for cut in (0, 1, 20, head_end - 2, head_end, head_end + 5, len(whole) - 1):
        connection = server.connect()
        connection.sendall(whole[:cut])
        leave(connection, reset)
    # During the prefill.
    connection = send_completion(
        server, prompt=words(2500, seed=next(SEEDS)), max_tokens=4, stream=stream
    )
    wait_for_counts(server, running=1)
    leave(connection, reset)
    server.wait_until_idle(10)
    # At the first token and in mid-stream; one that is not streamed is silent there.
    for events in (1, 6):
        connection = send_completion(
            server, prompt=words(12, seed=10), max_tokens=2000, stream=stream, temperature=1
        )
        if stream:
            read_until(connection, b"data: ", events)
        else:
            time.sleep(0.05 * events)
        leave(connection, reset)
    # After the last byte, with the connection kept, and before it is read.
    for read in (True, False):
        connection = server.connect()
        connection.sendall(whole)
        if read:
            read_until(connection, b"[DONE]" if stream else b'"usage"')
        leave(connection, reset)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
def test_disconnects_at_every_stage(server, reset, stream):
    with harmless(server):
        for _ in range(int(max(1, SCALE))):
            disconnects(server, reset, stream)


def test_disconnects_while_queued(servers):
    server = servers.get("smollm2", "--parallel", "1")
    running = send_completion(
        server, prompt=words(12, seed=11), max_tokens=6000, temperature=1, stream=True
    )
    read_until(running, b"data: ", 2)
    for reset in (False, True):
        queued = [
            send_completion(server, prompt=words(300, seed=i), max_tokens=4, stream=i % 2 == 0)
            for i in range(20)
        ]
        wait_for_counts(server, waiting=20)
        for connection in queued:
            leave(connection, reset)
        deadline = time.monotonic() + 10
        while server.get("/health")["waiting"] > 0:
            assert time.monotonic() < deadline
    running.close()
    at_rest(server)


def test_a_low_limit_of_descriptors_is_survived(servers, tmp_path):
    """The hard limit is below what 1024 connections need: said in the log, and lived with."""
    limited = tmp_path / "limited"
    log = tmp_path / "log"
    limited.write_text(
        f'#!/bin/sh\nulimit -n 200\nexec {Path(servers.binary()).resolve()} "$@" 2>{log}\n'
    )
    limited.chmod(0o755)
    server = Server(str(limited), servers.model_path("smollm2"))
    idle = [socket.create_connection((server.host, server.port), timeout=20) for _ in range(400)]
    answers_a_normal_client(server)
    for connection in idle:
        connection.close()
    at_rest(server)
    assert server.stop() == 0
    assert "the hard limit is 200" in log.read_text()
