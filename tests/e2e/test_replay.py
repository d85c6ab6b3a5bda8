# The same request again, edited, regenerated, interleaved, at once: identical to alone and cold.
from concurrent.futures import ThreadPoolExecutor

import pytest
from raw import post
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


# A reply that max_tokens cut off finds its prompt and all of its text in the cache.
def test_a_reply_that_was_cut_off_is_continued(warm, cold):
    options = {"extra_body": {"continue_final_message": True, "add_generation_prompt": False}}
    agreed = 0
    for seed in (1, 2, 3):
        question = [{"role": "user", "content": f"Tell me about {words(60, seed=seed)}"}]
        uncut = cold.chat(question, max_tokens=24)
        first = warm.chat(question, max_tokens=8)
        assert first.finish_reason == "length"
        chat = [*question, {"role": "assistant", "content": first.text}]
        rest = warm.chat(chat, max_tokens=16, **options)
        assert rest == cold.chat(chat, max_tokens=16, **options)
        assert rest == warm.chat(chat, max_tokens=16, stream=True, **options)
        # Where the text's tokens are those that were sampled, nothing tells it from one reply.
        if rest.prompt_token_ids == first.prompt_token_ids + first.token_ids:
            agreed += 1
            assert rest.cached_tokens >= first.prompt_tokens + 8 - 1
            assert first.text + rest.text == uncut.text
            assert first.token_ids + rest.token_ids == uncut.token_ids
        assert rest.cached_tokens >= first.prompt_tokens
    assert agreed > 0


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


CHAT, COMPLETIONS, LLAMA = "/v1/chat/completions", "/v1/completions", "/completion"
SCHEMA = {
    "type": "object",
    "properties": {"boat": {"type": "string", "maxLength": 12}, "crew": {"type": "integer"}},
    "required": ["boat", "crew"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "moor", "parameters": SCHEMA}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "boat", "schema": SCHEMA}}
PENALTIES = {
    "repetition_penalty": 1.2,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.5,
    "dry_multiplier": 0.8,
    "logit_bias": {"17": 3, "100": -100},
}
FILTERS = {"top_k": 60, "typical_p": 0.9, "min_p": 0.01, "xtc_probability": 0.5}


@pytest.mark.parametrize(
    ("path", "extra"),
    [
        (CHAT, {"response_format": FORMAT, "logprobs": True, "top_logprobs": 3}),
        (CHAT, {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}),
        (CHAT, {"tools": [TOOL], "n": 2}),
        (CHAT, {**PENALTIES, **FILTERS, "n": 3, "logprobs": True}),
        (CHAT, {"min_tokens": 20, "ignore_eos": True, "stop": ["zz"]}),
        (CHAT, {"continue_final_message": True, "n": 2, "logprobs": True}),
        (CHAT, {"add_generation_prompt": False, "tools": [TOOL]}),
        (COMPLETIONS, {"echo": True, "logprobs": 2, "n": 2}),
        (COMPLETIONS, {**PENALTIES, "stop_token_ids": [5]}),
        (LLAMA, {"json_schema": SCHEMA, "n_probs": 2}),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else value.rsplit("/", 1)[-1],
)
def test_every_way_of_asking_is_the_same_warm_and_cold(warm, cold, path, extra):
    text = words(120, seed=31)
    limit = "n_predict" if path == LLAMA else "max_tokens"
    body = {limit: 30, "temperature": 0.9, "seed": 7, **extra}
    messages = [{"role": "user", "content": text}]
    if "continue_final_message" in extra:
        messages.append({"role": "assistant", "content": "The boats are "})
    body |= {"messages": messages} if path == CHAT else {"prompt": text}

    def answer(server):
        status, reply = post(server, path, body)
        assert status == 200, reply
        if path == LLAMA:  # the cache's own numbers and times apart
            return {k: v for k, v in reply.items() if k not in ("tokens_cached", "timings")}
        for choice in reply["choices"]:
            for call in choice.get("message", {}).get("tool_calls", []):
                del call["id"]  # drawn for each reply
        return reply["choices"]

    first = answer(warm)
    assert answer(warm) == first
    assert answer(cold) == first
