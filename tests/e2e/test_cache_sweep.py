# The real models at every window edge, after other work, in chains, and in a storm of tenants.
import json
import random
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from server import Server
from texts import SYSTEM, words

WINDOW = 512  # of Gemma 3 270M


def prompt_ids(server, length, seed=11):
    ids = server.complete(words(length + 20, seed=seed), max_tokens=1).prompt_token_ids
    assert len(ids) >= length
    return ids[:length]


@pytest.fixture(scope="module")
def longest(servers):
    server = servers.get("gemma3")
    return prompt_ids(server, 2 * WINDOW + 40)


@pytest.mark.parametrize("model", ["gemma3"], indirect=True)
@pytest.mark.parametrize(
    "length", [WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW - 1, 2 * WINDOW, 2 * WINDOW + 1]
)
def test_at_the_windows_edges_replay_and_continuation_equal_cold(warm, cold, longest, length):
    prompt = longest[:length]
    first = warm.complete(prompt, max_tokens=6)
    assert first.cached_tokens == 0
    again = warm.complete(prompt, max_tokens=6)
    assert again.cached_tokens == length - 1
    assert first == again == cold.complete(prompt, max_tokens=6)
    longer = prompt + first.token_ids + longest[length : length + 30]
    next_turn = warm.complete(longer, max_tokens=6)
    assert next_turn.cached_tokens == length + 5  # law L2: the last sampled was never forwarded
    assert next_turn == cold.complete(longer, max_tokens=6)
    # Back before the edge: everything is still there while the budget has room.
    edited = prompt[: length - 70] + longest[:9]
    back = warm.complete(edited, max_tokens=6)
    assert back.cached_tokens == length - 70
    assert back == cold.complete(edited, max_tokens=6)


def test_forty_prompts_warm_and_cold(warm, cold):
    generator = random.Random(5)
    prompts = [words(generator.randrange(20, 120), seed=100 + i) for i in range(40)]
    firsts = [warm.complete(prompt, max_tokens=8) for prompt in prompts]
    for prompt, first in zip(prompts, firsts):
        again = warm.complete(prompt, max_tokens=8)
        assert again.cached_tokens == again.prompt_tokens - 1
        assert again == first == cold.complete(prompt, max_tokens=8)


def test_twelve_chained_prefixes_each_pay_for_their_own_tokens(warm, cold):
    history = words(30, seed=71)
    ids = warm.complete(history, max_tokens=1).prompt_token_ids
    extension = prompt_ids(warm, 12 * 61, seed=72)
    warm.reset_cache()
    forwarded = 0
    for step in range(12):
        answer = warm.complete(ids, max_tokens=5)
        if step:
            assert answer.cached_tokens == forwarded
        if step % 4 == 3:
            assert answer == cold.complete(ids, max_tokens=5)
        forwarded = len(ids) + 4
        ids = ids + answer.token_ids + extension[61 * step : 61 * (step + 1)]


def test_ten_other_requests_first_change_nothing(warm, cold):
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": words(300, seed=81)},
    ]
    alone = cold.chat(messages)
    for i in range(10):
        warm.chat([{"role": "user", "content": words(80, seed=90 + i)}], max_tokens=4)
    assert warm.chat(messages) == alone
    for i in range(10):
        warm.chat([messages[0], {"role": "user", "content": words(60, seed=70 + i)}], max_tokens=4)
    answer = warm.chat(messages)
    assert answer.cached_tokens == answer.prompt_tokens - 1
    assert answer == alone


def ask_as(server, key, path):
    request = urllib.request.Request(
        server.url + path, headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read().decode()


def test_a_storm_of_tenants_never_shows_a_foreign_marker(servers, tmp_path, capfd):
    """200 concurrent rounds of 40 keys under a budget that holds a few of them: what a tenant is
    told, and what the server tells about it, has only its own marker."""
    markers = [f"ZQ{i:03d}X" for i in range(40)]
    keys = tmp_path / "keys"
    keys.write_text("".join(f"tenant-{i} secret-{i}\n" for i in range(40)) + "ops admin-1 admin\n")
    keys.chmod(0o600)
    flags = ("--prompt-cache-capacity", "24M", "--api-key-file", str(keys), "--log-level", "debug")
    server = Server(servers.binary(), servers.model_path("smollm2"), flags)
    cold = servers.get("smollm2", "--prompt-cache=off")

    def prompt(tenant):
        mark = markers[tenant]
        return words(40, seed=tenant) + f" The secret word is {mark}." * 6 + " The secret word is"

    def one_round(number):
        tenant = random.Random(number).randrange(len(markers))
        client = server.client.with_options(api_key=f"secret-{tenant}")
        answer = server._ask(
            client.completions,
            number % 2 == 0,
            {"prompt": prompt(tenant)},
            {"temperature": 0, "max_tokens": 12, "logprobs": 5},
        )
        return tenant, answer

    try:
        with ThreadPoolExecutor(8) as pool:
            rounds = list(pool.map(one_round, range(200)))
        expected = {}
        for tenant, answer in rounds:
            for other, marker in enumerate(markers):
                assert other == tenant or marker not in answer.text
            if tenant not in expected and len(expected) < 12:
                expected[tenant] = cold.complete(prompt(tenant), max_tokens=12)
            if tenant in expected:
                assert answer == expected[tenant]
        hits = sum(answer.cached_tokens > 0 for _, answer in rounds)
        assert hits > 0, "nothing was reused: the storm proves nothing"
        told = sum(markers[tenant] in answer.text for tenant, answer in rounds)
        assert told > 0, "no marker was ever repeated: the storm proves nothing"
        said = [ask_as(server, f"secret-{i}", path) for i in range(40)
                for path in ("/v1/cache/stats", "/v1/cache/tree")]
        said.append(ask_as(server, "admin-1", "/metrics"))
        evictions = json.loads(ask_as(server, "admin-1", "/v1/cache/stats"))["all"]
        assert evictions["evictions_lru"] + evictions["window_pages_dropped"] > 0
    finally:
        server.stop()
    said.append(capfd.readouterr().err)
    assert not any(marker in text for marker in markers for text in said)
