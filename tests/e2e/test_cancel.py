# A client that leaves ends its request: waiting, during the prefill or in mid-stream. What was
# forwarded by then stays in the prompt cache.
import json
import re
import time

import pytest
from raw import events_of, read_to_end, read_until, send_completion
from texts import words

STEP_ROWS = 512  # --prefill-rows: the most prompt tokens of one step


@pytest.fixture(scope="module")
def server(servers):
    return servers.get("smollm2")


def metric(server, name):
    return float(re.search(rf"^{name} (\S+)$", server.get_text("/metrics"), re.M).group(1))


def cancelled(server):
    return metric(server, r'reprise_requests_ended_total\{reason="cancelled"\}')


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def completion(server, prompt, **fields):
    return server.complete(prompt, max_tokens=1, **fields)


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_during_a_long_prefill_keeps_what_was_forwarded(server, stream):
    server.reset_cache()
    prompt = words(2500, seed=80 + stream)
    rows, ended = metric(server, "reprise_forwarded_rows_total"), cancelled(server)
    connection = send_completion(server, prompt=prompt, max_tokens=4, stream=stream)
    wait_for(lambda: metric(server, "reprise_forwarded_rows_total") > rows)
    connection.close()
    at_leave = metric(server, "reprise_forwarded_rows_total")
    stats = server.wait_until_idle(10)
    forwarded = metric(server, "reprise_forwarded_rows_total") - rows
    # The step that runs when the note comes, the one before it is published, and that is all.
    assert forwarded - (at_leave - rows) <= 3 * STEP_ROWS
    assert cancelled(server) == ended + 1
    assert stats["sequence_bytes"] == 0 and stats["used_bytes"] == stats["cache_bytes_all"]
    again = completion(server, prompt)
    assert forwarded < again.prompt_tokens  # it did leave during the prefill
    assert again.cached_tokens == forwarded


def test_leaving_in_mid_stream_keeps_what_was_forwarded(server):
    server.reset_cache()
    prompt, ended = words(100, seed=82), cancelled(server)
    connection = send_completion(
        server, prompt=prompt, max_tokens=4000, stream=True, return_token_ids=True, temperature=1
    )
    received = read_until(connection, b'"text":"', 8)
    connection.close()
    stats = server.wait_until_idle(5)
    assert cancelled(server) == ended + 1
    assert stats["sequence_bytes"] == 0 and stats["used_bytes"] == stats["cache_bytes_all"]
    ids = []
    for event in events_of(received)[:-1]:  # the last one may be cut off
        choice = json.loads(event)["choices"][0]
        ids += (choice.get("prompt_token_ids") or []) + (choice.get("token_ids") or [])
    assert len(ids) > 100
    # All but the last one sampled were forwarded; at least one prompt token always is anew.
    assert completion(server, ids).cached_tokens == len(ids) - 1


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_while_waiting_costs_nothing(servers, stream):
    server = servers.get("smollm2", "--parallel", "1")
    server.reset_cache()
    running = send_completion(
        server, prompt=words(30, seed=83), max_tokens=4000, temperature=1, stream=True
    )
    read_until(running, b"data: ", 2)
    prompt = words(600, seed=84)
    waiting = [
        send_completion(server, prompt=prompt, max_tokens=4, stream=stream) for _ in range(5)
    ]
    wait_for(lambda: server.get("/health")["waiting"] == 5)
    ended = cancelled(server)
    for connection in waiting:
        connection.close()
    wait_for(lambda: server.get("/health")["waiting"] == 0, 5)
    assert cancelled(server) == ended + 5
    assert server.get("/health")["running"] == 1  # who stays is not disturbed
    read_until(running, b"data: ", 2)
    running.close()
    server.wait_until_idle()
    assert completion(server, prompt).cached_tokens == 0  # nothing was computed for them


def test_leaving_does_not_disturb_those_who_stay(server):
    server.reset_cache()
    prompt = words(60, seed=85)
    undisturbed = server.complete(prompt, stream=True, max_tokens=40)
    server.reset_cache()
    leavers = [
        send_completion(server, prompt=words(700, seed=86 + i), max_tokens=50, stream=i % 2 == 0)
        for i in range(3)
    ]
    staying = send_completion(
        server, prompt=prompt, max_tokens=40, stream=True, return_token_ids=True
    )
    time.sleep(0.3)
    for connection in leavers:
        connection.close()
    received = b""
    while b"[DONE]" not in received:
        received += staying.recv(65536)
    staying.close()
    ids = []
    for event in events_of(received)[:-1]:
        for choice in json.loads(event)["choices"]:
            ids += choice.get("token_ids") or []
    assert ids == undisturbed.token_ids
    server.wait_until_idle()


def test_clients_that_come_and_go_leak_nothing(server):
    server.reset_cache()
    for i in range(30):
        connection = send_completion(
            server, prompt=words(20 + 40 * (i % 5), seed=i), max_tokens=30, stream=i % 2 == 0
        )
        time.sleep(0.01 * (i % 7))
        if i % 3 == 0:
            connection.shutdown(1)  # only its sending side: counts as gone
            read_to_end(connection)
        else:
            connection.close()
    stats = server.wait_until_idle(20)
    assert stats["sequence_bytes"] == 0 and stats["used_bytes"] == stats["cache_bytes_all"]
    server.reset_cache()
    assert server.stats()["used_bytes"] == 0
