# The same request again, edited, regenerated, interleaved, at once: identical to alone and cold.
from concurrent.futures import ThreadPoolExecutor

import pytest
from texts import SYSTEM, words


def token_prompt(server, length):
    """A prompt of exactly `length` token ids."""
    ids = server.complete(words(length + 20, seed=11), max_tokens=1).prompt_token_ids
    assert len(ids) >= length
    return ids[:length]


def test_three_times_the_same_at_every_page_phase(warm, cold):
    longest = token_prompt(warm, 700)
    warm.reset_cache()
    for length in range(500, 701, 9):
        prompt = longest[:length]
        warm.reset_cache()
        first, second, third = (warm.complete(prompt, max_tokens=4) for _ in range(3))
        assert first == second == third, length
        assert first.cached_tokens == 0
        assert second.cached_tokens == third.cached_tokens == length - 1
        if length % 27 == 14:
            assert first == cold.complete(prompt, max_tokens=4)


def test_growing_prefixes_of_every_length(warm, cold):
    longest = token_prompt(warm, 700)
    for length in range(500, 701, 50):
        assert warm.complete(longest[:length]) == cold.complete(longest[:length])


def test_edited_last_message_and_regenerate(warm, cold):
    history = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": words(150, seed=1)},
    ]
    reply = warm.chat(history)
    history.append({"role": "assistant", "content": reply.text})
    for question in (
        "Which boat came first?",
        "Which boat came last?",
        "Which boat came first?",
    ):
        messages = history + [{"role": "user", "content": question}]
        answer = warm.chat(messages)
        assert answer.cached_tokens > reply.prompt_tokens - 16
        assert answer == cold.chat(messages)
    for seed in (1, 2, 1):  # regenerate: the prompt is cached, the draw differs
        drawn = warm.chat(messages, temperature=0.9, seed=seed)
        assert drawn.cached_tokens == drawn.prompt_tokens - 1
        assert drawn == cold.chat(messages, temperature=0.9, seed=seed)


def test_two_conversations_in_turns(warm, cold):
    chats = [[{"role": "user", "content": words(90, seed=i)}] for i in (21, 22)]
    for turn in range(3):
        for chat in chats:
            answer = warm.chat(chat)
            assert answer == cold.chat(chat)
            if turn > 0:
                assert answer.cached_tokens > 0
            chat += [
                {"role": "assistant", "content": answer.text},
                {"role": "user", "content": words(30, seed=turn)},
            ]


def test_four_at_once_equal_each_alone(warm, cold):
    prompts = [words(60 + 110 * i, seed=40 + i) for i in range(4)]
    alone = [cold.complete(p, max_tokens=32) for p in prompts]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda p: warm.complete(p, max_tokens=32), prompts))
        streamed = list(
            pool.map(lambda p: warm.complete(p, max_tokens=32, stream=True), prompts)
        )
    assert at_once == alone
    assert streamed == alone


def test_four_times_the_same_at_once_computes_the_prompt_once(warm, cold):
    prompt = words(400, seed=50)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: warm.complete(prompt), range(4)))
    expected = cold.complete(prompt)
    assert all(answer == expected for answer in answers)
    forwarded = sum(a.prompt_tokens - a.cached_tokens for a in answers)
    # One computes the prompt; the others at most the block that was not published yet.
    assert forwarded <= expected.prompt_tokens + 3 * 65


@pytest.mark.parametrize(
    "flags", [("--threads", "1"), ("--isa", "scalar"), ("--prefill-rows", "7")]
)
@pytest.mark.parametrize("model", ["smollm2"], indirect=True)
def test_threads_kernels_and_chunks_do_not_matter(servers, model, cold, flags):
    prompt = words(60, seed=60)
    assert servers.get(model, *flags).complete(prompt, max_tokens=8) == cold.complete(
        prompt, max_tokens=8
    )
