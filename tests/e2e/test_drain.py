# SIGTERM: what was accepted ends, each request exactly once; a second one ends everything at once.
import signal
import time

import pytest
from raw import (
    events_of,
    json_body_of,
    read_to_end,
    read_until,
    request_bytes,
    send_completion,
    status_of,
)
from server import Server
from texts import words

STORY = words(40, seed=90)


@pytest.fixture
def start(servers):
    started = []

    def start_server(*flags):
        server = Server(servers.binary(), servers.model_path("smollm2"), flags)
        started.append(server)
        return server

    yield start_server
    for server in started:
        if server.is_running():
            server.stop(signal.SIGKILL)


def signalled(server, number=signal.SIGTERM):
    server._process.send_signal(number)


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_refused(server):
    """Whether a new request gets no connection, or 503."""
    try:
        connection = send_completion(server, prompt="x", max_tokens=1)
    except ConnectionError:
        return True
    reply = read_to_end(connection)
    return reply == b"" or status_of(reply) == 503


def ended_once(reply):
    """The finish reason of a stream that ended as it should, with nothing behind its end."""
    events = events_of(reply)
    assert events[-1] == "[DONE]" and events.count("[DONE]") == 1
    assert sum('"finish_reason":"' in event for event in events) == 1
    assert reply.endswith(b"0\r\n\r\n")
    return events


def test_streams_and_whole_replies_finish_and_new_requests_do_not_begin(start):
    server = start("--drain-timeout", "120")
    stream = send_completion(server, prompt=STORY, max_tokens=150, stream=True)
    whole = send_completion(server, prompt=STORY, max_tokens=100)
    received = read_until(stream, b"data: ", 3)
    wait_for(lambda: server.stats()["running"] == 2)
    # Half a request is on its way when the signal comes.
    half = server.connect()
    late = request_bytes("/v1/completions", {"prompt": "x", "max_tokens": 1})
    half.sendall(late[:-5])
    idle = server.connect()
    time.sleep(0.2)
    signalled(server)
    assert idle.recv(100) == b""  # nobody waits for a connection that asks nothing
    assert is_refused(server)
    half.sendall(late[-5:])
    refused = read_to_end(half)
    assert status_of(refused) == 503
    assert json_body_of(refused)["error"]["code"] == "server_stopping"
    assert server.is_running()
    received += read_to_end(stream)
    assert len(ended_once(received)) > 100
    reply = read_to_end(whole)
    assert status_of(reply) == 200
    assert json_body_of(reply)["usage"]["completion_tokens"] == 100
    assert server._process.wait(20) == 0


def test_what_waits_for_its_turn_ends_too(start):
    server = start("--drain-timeout", "120", "--parallel", "1")
    running = send_completion(server, prompt=STORY, max_tokens=60, stream=True)
    received = read_until(running, b"data: ", 2)
    queued = [send_completion(server, prompt=STORY, max_tokens=4) for _ in range(3)]
    wait_for(lambda: server.stats()["waiting"] == 3)
    signalled(server)
    ended_once(received + read_to_end(running))
    for connection in queued:
        reply = read_to_end(connection)
        assert status_of(reply) in (200, 503), reply
        if status_of(reply) == 200:
            assert json_body_of(reply)["usage"]["completion_tokens"] == 4
        else:
            assert json_body_of(reply)["error"]["code"] == "server_stopping"
    assert server._process.wait(20) == 0


def test_when_the_time_is_over_everybody_is_told(start):
    server = start("--drain-timeout", "1", "--parallel", "1")
    running = send_completion(server, prompt=STORY, max_tokens=8000, temperature=1, stream=True)
    received = read_until(running, b"data: ", 2)
    queued = send_completion(server, prompt=STORY, max_tokens=4)
    queued_stream = send_completion(server, prompt=STORY, max_tokens=4, stream=True)
    wait_for(lambda: server.stats()["waiting"] == 2)
    begin = time.monotonic()
    signalled(server)
    events = events_of(received + read_to_end(running))
    assert "[DONE]" not in events
    assert '"error"' in events[-1] and "server_stopping" in events[-1]
    assert sum('"error"' in event for event in events) == 1
    for connection in (queued, queued_stream):
        reply = read_to_end(connection)
        assert status_of(reply) == 503
        assert json_body_of(reply)["error"]["code"] == "server_stopping"
    assert server._process.wait(20) == 0
    assert time.monotonic() - begin < 8


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(start, second):
    server = start("--drain-timeout", "600")
    stream = send_completion(server, prompt=STORY, max_tokens=8000, temperature=1, stream=True)
    whole = send_completion(server, prompt=words(3000, seed=91), max_tokens=1000)
    received = read_until(stream, b"data: ", 3)
    wait_for(lambda: server.stats()["running"] == 2)
    signalled(server)
    received += read_until(stream, b"data: ", 3)  # the first one lets it go on
    assert server.is_running()
    begin = time.monotonic()
    signalled(server, second)
    assert server._process.wait(20) == 0
    assert time.monotonic() - begin < 2
    assert "[DONE]" not in events_of(received + read_to_end(stream))
    assert b"200 OK" not in read_to_end(whole)


def test_a_server_without_work_ends_at_once(start):
    server = start("--drain-timeout", "600")
    idle = server.connect()
    begin = time.monotonic()
    assert server.stop(timeout=20) == 0
    assert time.monotonic() - begin < 2
    assert idle.recv(100) == b""
