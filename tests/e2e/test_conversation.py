# A conversation costs only its new tokens, and every answer equals the one without the cache.
import pytest
from texts import SYSTEM, words


def conversation_turn(turn):
    """User messages that bring a six-turn chat well past 2,000 tokens and Gemma's window of 512."""
    return {1: "Who keeps the lamp?", 2: "And who repairs the clock?"}.get(
        turn, words(400, seed=turn)
    )


def same_cold(cold, answer, messages, **options):
    assert answer == cold.chat(messages, **options)


def test_a_chat_grows_past_the_window_and_still_hits(warm, cold, model):
    messages = [{"role": "system", "content": SYSTEM}]
    previous = None
    for turn in range(1, 7):
        messages.append({"role": "user", "content": conversation_turn(turn)})
        before = warm.stats()
        answer = warm.chat(messages)
        after = warm.wait_until_idle()
        assert after["lookups"] == before["lookups"] + 1
        if turn == 1:
            assert answer.cached_tokens == 0
        else:
            assert after["hits"] == before["hits"] + 1
            assert after["last_hit"]["matched_len"] == answer.cached_tokens
            # Law L2: what was forwarded last turn, or the history boundary where the template
            # renders the reply another way than it was sampled: at least last turn's prompt but its
            # end.
            assert answer.cached_tokens >= previous.prompt_tokens - 8
        assert answer == cold.chat(messages), f"turn {turn}"
        assert answer == cold.chat(messages, stream=True), f"turn {turn}, stream"
        assert answer == warm.chat(messages, stream=True), f"turn {turn}, stream from the cache"
        messages.append({"role": "assistant", "content": answer.text})
        previous = answer
    assert previous.prompt_tokens > 2000


def test_the_next_turn_resumes_where_the_reply_was_forwarded(warm):
    """Completions on token ids: no template and no tokeniser between the turns, so law L2 is exact."""
    first = warm.complete(words(120, seed=3), max_tokens=20)
    assert first.finish_reason == "length"
    history = first.prompt_token_ids + first.token_ids
    second = warm.complete(history + first.prompt_token_ids[1:9], max_tokens=4)
    assert second.cached_tokens == first.prompt_tokens + 20 - 1
    assert warm.stats()["last_hit"]["matched_len"] == second.cached_tokens


def test_a_prompt_that_shares_only_the_system_prompt_hits_it(warm, cold):
    system = {"role": "system", "content": SYSTEM}
    warm.chat([system, {"role": "user", "content": "Who keeps the lamp?"}])
    other = [system, {"role": "user", "content": "Where do the boats go in winter?"}]
    answer = warm.chat(other)
    assert answer.cached_tokens > 150
    assert answer == cold.chat(other)


@pytest.mark.parametrize("model", ["gemma3"], indirect=True)
def test_divergence_where_the_window_is_gone_is_a_counted_miss(servers, cold, model):
    # The second prompt takes the room of the first one's early windowed pages: they are outside
    # marks and go first, while its full-attention pages stay.
    server = servers.get("gemma3", "--prompt-cache-capacity", "40M")
    server.reset_cache()
    base = words(1500, seed=1)
    server.complete(base, max_tokens=2)
    server.complete(words(1300, seed=2), max_tokens=2)
    diverging = " ".join(base.split()[:500]) + " " + words(60, seed=9)
    before = server.stats()
    answer = server.complete(diverging)
    after = server.wait_until_idle()
    assert answer == cold.complete(diverging)
    assert after["lookups"] == before["lookups"] + 1
    assert after["hits"] == before["hits"]
    assert after["last_reject_reason"] == "snapshot_diverged"
    assert after["reject_snapshot_diverged"] == before["reject_snapshot_diverged"] + 1
    assert after["window_pages_dropped"] > 0
    assert answer.cached_tokens == 0


def test_completions_equal_cold_ones(warm, cold):
    text = words(200, seed=5)
    for count in (40, 90, 200):
        prompt = " ".join(text.split()[:count])
        answer = warm.complete(prompt)
        assert answer == cold.complete(prompt)
        assert answer == warm.complete(prompt, stream=True)
        assert answer == cold.complete(prompt, stream=True)


def test_a_reply_of_one_token_and_the_next_turn(warm, cold):
    first = warm.complete(words(70, seed=6), max_tokens=1)
    history = first.prompt_token_ids + first.token_ids
    second = warm.complete(history + [history[5], history[6]])
    assert second.cached_tokens == first.prompt_tokens
    assert second == cold.complete(history + [history[5], history[6]])


def test_materialised_hits_equal_references(servers, model, warm):
    server = servers.get(model, "--cache-store=materialised")
    server.reset_cache()
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": words(400, seed=8)},
    ]
    for _ in range(2):
        answer = server.chat(messages)
        assert answer == warm.chat(messages)
    assert answer.cached_tokens == answer.prompt_tokens - 1
