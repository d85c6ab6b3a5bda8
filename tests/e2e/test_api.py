# The forms that OpenAI's clients expect.
import json
import urllib.error
import urllib.request

import openai
import pytest
from server import Server
from texts import words

HELLO = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(scope="module")
def server(servers):
    return servers.get("smollm2")


def test_typed_replies_of_the_client(server):
    reply = server.client.chat.completions.create(
        model="test", messages=HELLO, max_tokens=8, temperature=0
    )
    assert reply.object == "chat.completion" and reply.model == "test"
    assert reply.choices[0].message.role == "assistant"
    assert reply.usage.prompt_tokens_details.cached_tokens >= 0
    assert reply.system_fingerprint.startswith("fp_")
    whole = server.client.completions.create(model="test", prompt="One two three", max_tokens=3)
    assert whole.object == "text_completion"
    chunks = list(
        server.client.chat.completions.create(
            model="test", messages=HELLO, max_tokens=8, temperature=0, stream=True
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")
    assert (
        "".join(c.choices[0].delta.content or "" for c in chunks)
        == reply.choices[0].message.content
    )


def test_content_parts_equal_a_string(server):
    parts = [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]
    assert server.chat(parts) == server.chat(HELLO)


def test_models_health_metrics(server):
    assert [m.id for m in server.client.models.list()] == ["test"]
    assert server.client.models.retrieve("test").id == "test"
    assert server.get("/health")["status"] == "ok"
    with urllib.request.urlopen(server.url + "/metrics", timeout=30) as reply:
        text = reply.read().decode()
    assert "reprise_" in text and "# TYPE" in text


def test_stop_strings_cut_the_same_text_everywhere(server):
    full = server.chat(HELLO, max_tokens=40).text
    assert len(full) > 12
    for begin in range(2, min(len(full) - 4, 30), 3):
        stop = full[begin : begin + 4]
        expected = full[: full.index(stop)]
        for stream in (False, True):
            answer = server.chat(HELLO, stream=stream, max_tokens=40, stop=[stop, "never this"])
            assert answer.text == expected, stop
            assert answer.finish_reason == "stop"


def test_every_limit_gives_a_prefix_of_the_same_text(server):
    full = server.chat(HELLO, max_tokens=30)
    for limit in range(1, 20):
        whole = server.chat(HELLO, max_tokens=limit)
        assert whole == server.chat(HELLO, max_tokens=limit, stream=True)
        assert full.token_ids[:limit] == whole.token_ids
        assert full.text.startswith(whole.text.rstrip("\ufffd"))


def test_seeded_draws_repeat_and_unseeded_differ(server):
    drawn = [server.chat(HELLO, temperature=1.5, seed=7, max_tokens=16) for _ in range(2)]
    assert drawn[0] == drawn[1]
    free = {server.chat(HELLO, temperature=1.5, max_tokens=16).text for _ in range(4)}
    assert len(free) > 1


def test_truncations_of_the_distribution(server):
    greedy = server.chat(HELLO, max_tokens=8)
    for options in (
        {"extra_body": {"top_k": 1}},
        {"top_p": 1e-6},
        {"extra_body": {"min_p": 1.0}},
    ):
        assert server.chat(HELLO, max_tokens=8, temperature=1.3, seed=3, **options) == greedy


def test_unknown_fields_are_ignored(server):
    assert server.chat(HELLO, extra_body={"some_future_field": {"x": 1}}) == server.chat(HELLO)


def test_api_keys_and_tenants(servers):
    server = servers.get("smollm2", "--api-key", "alpha,beta", "--cors-origin", "*")
    with pytest.raises(openai.AuthenticationError):
        server.client.models.list()
    assert server.get("/health")["status"] == "ok"
    clients = [
        openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)
        for key in ("alpha", "beta")
    ]

    def cached(client, **extra):
        reply = client.completions.create(
            model="test", prompt=words(100, seed=4), max_tokens=1, extra_body=extra
        )
        return reply.usage.prompt_tokens_details.cached_tokens

    assert cached(clients[0]) == 0
    assert cached(clients[0]) > 0
    assert cached(clients[1]) == 0  # another key never sees it
    assert cached(clients[0], cache_salt="x") == 0
    assert cached(clients[0], cache_salt="x") > 0
    assert cached(clients[0], cache_prompt=False) == 0


def test_int8_keys_and_values_run_without_the_prompt_cache(servers):
    server = servers.get("smollm2", "--kv-type", "int8")
    messages = [{"role": "user", "content": "Name three colours of the rainbow, one a line."}]
    first, second = server.chat(messages), server.chat(messages)
    assert first == second and first.text
    assert second.cached_tokens == 0
    stats = server.get("/v1/cache/stats")
    assert stats["enabled"] is False
    assert stats["entries"] == 0 and stats["hits"] == 0
    assert stats["reject_mode_refused"] >= 2
    assert stats["last_reject_reason"] == "mode_refused"


def test_cors_preflight(servers):
    server = servers.get("smollm2", "--api-key", "alpha,beta", "--cors-origin", "*")
    request = urllib.request.Request(
        server.url + "/v1/chat/completions",
        method="OPTIONS",
        headers={
            "Origin": "http://a",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,x-stainless-lang",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        assert reply.status == 204
        assert reply.headers["Access-Control-Allow-Origin"] == "*"
        allowed = reply.headers["Access-Control-Allow-Headers"]
        assert allowed == "authorization, x-stainless-lang"


def test_resident_memory_before_the_first_request(servers, model):
    import os

    server = Server(servers.binary(), servers.model_path(model))
    try:
        file_bytes = os.path.getsize(servers.model_path(model))
        assert server.resident_bytes() <= 1.25 * file_bytes + 128e6
    finally:
        assert server.stop() == 0


def test_errors_carry_the_form_that_clients_raise(server):
    with pytest.raises(openai.BadRequestError) as caught:
        server.client.chat.completions.create(model="test", messages=HELLO, temperature=9)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        server.client.chat.completions.create(model="other", messages=HELLO)
    with pytest.raises(urllib.error.HTTPError) as missing:
        server.get("/nothing")
    assert json.load(missing.value)["error"]["code"] == "not_found"


WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}},
    "required": ["city"],
}


def tool(parameters, **more):
    function = {"name": "get_weather", "parameters": parameters, **more}
    return [{"type": "function", "function": function}]


def test_required_calls_leave_no_text_at_any_limit(server):
    options = {"tools": tool(WEATHER), "tool_choice": "required", "temperature": 0}
    for limit in (1, 2, 3, 5, 8, 12, 30):
        whole = server.client.chat.completions.create(
            model="test", messages=HELLO, max_tokens=limit, **options
        ).choices[0]
        assert not whole.message.content, limit
        chunks = server.client.chat.completions.create(
            model="test", messages=HELLO, max_tokens=limit, stream=True, **options
        )
        arguments = ""
        for chunk in chunks:
            for choice in chunk.choices:
                assert not choice.delta.content, limit
                for call in choice.delta.tool_calls or []:
                    arguments += call.function.arguments or ""
        calls = whole.message.tool_calls or []
        assert arguments == "".join(call.function.arguments for call in calls)
        response = server.client.responses.create(
            model="test",
            input="Say hello.",
            max_output_tokens=limit,
            tools=[{"type": "function", "name": "get_weather", "parameters": WEATHER}],
            tool_choice="required",
            temperature=0,
        )
        assert response.output_text == "", limit
        # Where there is nothing, not even a name, the reply is an empty message.
        kinds = {item.type for item in response.output}
        assert kinds in ({"function_call"}, {"message"}), limit


def test_calls_have_the_listed_arguments_only(server):
    nothing = [None, {}, {"type": "object", "properties": {}}]
    for parameters in [*nothing, WEATHER]:
        choices = server.client.chat.completions.create(
            model="test",
            messages=HELLO,
            tools=tool(parameters),
            tool_choice="required",
            parallel_tool_calls=False,
            max_tokens=60,
            temperature=1.2,
            seed=3,
            n=4,
        ).choices
        for choice in choices:
            if choice.finish_reason != "tool_calls":
                continue
            arguments = json.loads(choice.message.tool_calls[0].function.arguments)
            assert list(arguments) == (["city"] if parameters is WEATHER else [])


def test_a_hint_is_no_reason_to_refuse(server):
    cases = [
        {"type": "array", "minItems": 5, "maxItems": 2},
        {"type": "string", "pattern": "/^abc$/i"},
        {"type": "string", "pattern": "^[a-z]{,5}$"},
        {"type": "string", "pattern": "a^b"},
        {"type": "object", "properties": {"x": {}, "y": {}}, "minProperties": 2},
        {"type": "object", "patternProperties": {"^a": {}, "b$": {}}},
        {"type": "string", "maxLength": 10000000},
        {"enum": [18446744073709551615, 1]},
        {"$ref": "https://example.com/y.json"},
        {"type": "string", "enum": []},
        {"type": "array", "items": None, "format": None},
    ]
    for case in cases:
        parameters = {"type": "object", "properties": {"a": case}, "required": ["a"]}
        options = {"model": "test", "messages": HELLO, "max_tokens": 4, "tool_choice": "required"}
        server.client.chat.completions.create(tools=tool(parameters), **options)
        with pytest.raises(openai.BadRequestError) as caught:
            server.client.chat.completions.create(
                tools=tool(parameters, strict=True), **options
            )
        assert caught.value.param == "tools[0].function.parameters", case
        assert "lark" not in str(caught.value).lower(), case
