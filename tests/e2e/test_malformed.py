# Requests that are wrong: each gets its status, code and parameter, and harms nothing. After each
# the server answers a normal request; at the end it is the same process in the same memory.
import http.client
import json

import pytest
from server import Server

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"
LLAMA = "/completion"
TOKENIZE = "/tokenize"
DETOKENIZE = "/detokenize"
TEMPLATE = "/apply-template"

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
BASES = {
    CHAT: {"messages": [USER], "max_tokens": 1},
    COMPLETIONS: {"prompt": "hi", "max_tokens": 1},
    RESPONSES: {"input": "hi", "max_output_tokens": 16},
    LLAMA: {"prompt": "hi", "n_predict": 1},
    TOKENIZE: {"content": "hi"},
    DETOKENIZE: {"tokens": [1]},
    TEMPLATE: {"messages": [USER]},
}
GENERATING = (CHAT, COMPLETIONS, LLAMA)
SCHEMAS = {
    CHAT: "ChatCompletionRequest",
    COMPLETIONS: "CompletionRequest",
    RESPONSES: "ResponseRequest",
    LLAMA: "LlamaCompletionRequest",
    TOKENIZE: "TokenizeRequest",
    DETOKENIZE: "DetokenizeRequest",
    TEMPLATE: "TemplateRequest",
}

MISSING = "missing_required_parameter"
TYPE = "invalid_type"
VALUE = "invalid_value"
UNSUPPORTED = "unsupported_parameter"
JSON = "invalid_json"

NESTED = 100_000
GROWTH_MAX = 96 << 20  # what malloc may keep of bodies of 10 MB that were read once
LEAK_MAX = 24 << 20  # what a second pass over the whole table may add to that


# ---- the table ----------------------------------------------------------------------------------


def field_cases(paths, field, code, *values):
    """One case for each endpoint and value: that field wrong in an else good request."""
    return [
        (path, {**BASES[path], field: value}, 400, code, field)
        for path in paths
        for value in values
    ]


def body_cases(path, *rows):
    """Rows (members, code, param): a good request with these members changed."""
    return [(path, {**BASES[path], **members}, 400, code, param) for members, code, param in rows]


def messages_case(code, param, *messages):
    return (CHAT, {"messages": list(messages), "max_tokens": 1}, 400, code, param)


def numbers():
    """(field, values of a wrong type, values out of range) of all generating endpoints."""
    rows = [
        ("temperature", ["hot", True, [], {}], [-1, 2.01, 1e9]),
        ("top_p", ["x", False], [-1, 2, 7]),
        ("top_k", ["x", 1.5], [-5, 10**9, 1e300]),
        ("min_p", [{}], [-0.1, 1.1]),
        ("typical_p", ["x"], [1.1]),
        ("xtc_probability", ["x"], [-1, 2]),
        ("xtc_threshold", [[]], [2]),
        ("dry_multiplier", ["x"], [-1]),
        ("dry_base", ["x"], [0]),
        ("dry_allowed_length", [1.5], [0]),
        ("dry_penalty_last_n", ["x"], [-2]),
        ("repetition_penalty", ["x"], [0, -1]),
        ("repeat_penalty", [[]], [1000]),
        ("repeat_last_n", ["x"], [-2]),
        ("frequency_penalty", ["x"], [2.5]),
        ("presence_penalty", [True], [-2.5]),
        ("seed", ["x", 1.5], [1e30]),
        ("n", ["1", 1.5], [0, -1, 129, 10**12]),
        ("min_tokens", ["x", 0.5], [-1]),
        ("cache_pin_seconds", ["x"], [-1, 86401]),
        ("timeout", ["x"], [0, -1, 10**7]),
    ]
    for field, wrong_types, wrong_values in rows:
        for index, value in enumerate(wrong_types):
            yield from field_cases(GENERATING[index % 3 : index % 3 + 1], field, TYPE, value)
        for index, value in enumerate(wrong_values):
            yield from field_cases(GENERATING[index % 3 : index % 3 + 1], field, VALUE, value)


def shared_fields():
    for field in ("stream", "ignore_eos", "return_token_ids", "cache_prompt", "cache_details"):
        yield from field_cases(GENERATING, field, TYPE, "yes")
    yield from field_cases(GENERATING, "model", TYPE, 5)
    yield from field_cases(GENERATING, "cache_salt", TYPE, 5)
    yield from field_cases(GENERATING, "cache_salt", VALUE, "x" * 1025)
    yield from field_cases(GENERATING, "priority", VALUE, "urgent")
    yield from field_cases(GENERATING, "stop", TYPE, 5, {"a": 1})
    yield from field_cases(GENERATING, "stop", VALUE, "", ["x"] * 100, "x" * 10_000)
    yield from field_cases(GENERATING, "logit_bias", TYPE, "x", 5)
    yield from field_cases(GENERATING, "logit_bias", VALUE, {"x": 1}, {"-1": 1}, {"": 1})
    yield from field_cases(GENERATING, "stop_token_ids", TYPE, "x", 5)
    yield from field_cases(GENERATING, "dry_sequence_breakers", TYPE, "x")
    yield from field_cases(GENERATING, "stream_options", VALUE, {"include_usage": True})
    yield from field_cases(GENERATING, "return_progress", VALUE, True)
    yield from field_cases(GENERATING, "grammar", UNSUPPORTED, "root ::= x")
    for path in GENERATING:
        yield from body_cases(
            path,
            ({"stop": [""]}, VALUE, "stop[0]"),
            ({"stop": ["a", None]}, TYPE, "stop[1]"),
            ({"logit_bias": {"5": 101}}, VALUE, "logit_bias.5"),
            ({"logit_bias": {"5": "x"}}, TYPE, "logit_bias.5"),
            ({"stop_token_ids": [-1]}, VALUE, "stop_token_ids[0]"),
            ({"stream": True, "stream_options": []}, TYPE, "stream_options"),
        )


def chat_fields():
    yield from field_cases([CHAT], "max_tokens", VALUE, 0, -1, 1e300)
    yield from field_cases([CHAT], "max_tokens", TYPE, 2.5, "5", [1], True)
    yield from field_cases([CHAT], "top_logprobs", VALUE, 5, -1, 21, 10_000, 10**6)
    yield from field_cases([CHAT], "logprobs", TYPE, 3)
    yield from field_cases([CHAT], "reasoning_effort", VALUE, "most")
    yield from field_cases([CHAT], "reasoning_effort", TYPE, 3)
    yield from field_cases([CHAT], "chat_template_kwargs", TYPE, [], "x")
    yield from field_cases([CHAT], "parallel_tool_calls", TYPE, "no")
    yield from field_cases([CHAT], "functions", UNSUPPORTED, [{"name": "f"}])
    yield from field_cases([CHAT], "function_call", UNSUPPORTED, "auto")
    yield from field_cases([CHAT], "audio", UNSUPPORTED, {"voice": "x"})
    yield from field_cases([CHAT], "modalities", UNSUPPORTED, ["text", "audio"])
    yield from body_cases(
        CHAT,
        ({"max_completion_tokens": 2}, VALUE, "max_completion_tokens"),
        ({"min_tokens": 2}, VALUE, "min_tokens"),
        ({"logprobs": True, "top_logprobs": 21}, VALUE, "top_logprobs"),
    )


def chat_messages():
    yield from field_cases([CHAT, TEMPLATE], "messages", VALUE, [])
    yield from field_cases([CHAT, TEMPLATE], "messages", TYPE, "hi", {}, 5)
    yield from field_cases([CHAT, TEMPLATE], "messages", MISSING, None)
    yield (CHAT, {}, 400, MISSING, "messages")
    for role in ("user", "system", "assistant"):
        yield messages_case(MISSING, "messages[0].content", {"role": role, "content": None})
    at = "messages[0]"
    yield messages_case(TYPE, at, "hi")
    yield messages_case(TYPE, at, None)
    yield messages_case(MISSING, at + ".role", {"content": "hi"})
    yield messages_case(TYPE, at + ".role", {"role": 3, "content": "hi"})
    yield messages_case(VALUE, at + ".role", {"role": "robot\n\u0007", "content": "hi"})
    yield messages_case(UNSUPPORTED, at + ".role", {"role": "function", "content": "hi"})
    yield messages_case(TYPE, at + ".content", {"role": "user", "content": 5})
    yield messages_case(VALUE, at + ".content", {"role": "user", "content": []})
    yield messages_case(TYPE, at + ".content[0]", {"role": "user", "content": ["hi"]})
    yield messages_case(
        UNSUPPORTED,
        at + ".content[0].type",
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
    )
    yield messages_case(
        TYPE,
        at + ".content[0].text",
        {"role": "user", "content": [{"type": "text", "text": 1}]},
    )
    yield messages_case(TYPE, at + ".name", {**USER, "name": 5})
    yield messages_case(VALUE, at + ".tool_calls", {**USER, "tool_calls": [CALL]})
    yield messages_case(
        VALUE, at + ".tool_call_id", {"role": "tool", "tool_call_id": "c", "content": "x"}
    )
    calls = {"role": "assistant", "content": None}
    call_at = "messages[1].tool_calls[0]"

    def call(**changes):
        function = {**CALL["function"], **changes.pop("function", {})}
        return {**calls, "tool_calls": [{**CALL, "function": function, **changes}]}

    for arguments in ("{", "[]", "null", "text", '{"a":1,"a":2}', "[" * NESTED):
        wrong = call(function={"arguments": arguments})
        yield messages_case(VALUE, call_at + ".function.arguments", USER, wrong)
    for arguments in ({}, 5, []):
        wrong = call(function={"arguments": arguments})
        yield messages_case(TYPE, call_at + ".function.arguments", USER, wrong)
    yield messages_case(MISSING, call_at + ".id", USER, call(id=None))
    yield messages_case(UNSUPPORTED, call_at + ".type", USER, call(type="custom"))
    yield messages_case(MISSING, call_at + ".function.name", USER, call(function={"name": None}))
    answer = {"role": "tool", "tool_call_id": "other", "content": "x"}
    yield messages_case(VALUE, "messages[2].tool_call_id", USER, call(), answer)
    yield messages_case(
        MISSING, "messages[2].tool_call_id", USER, call(), {"role": "tool", "content": "x"}
    )


def tools():
    def with_function(**members):
        return {"tools": [{"type": "function", "function": members}]}

    at = "tools[0].function"
    named = {"type": "function", "function": {"name": "other"}}
    yield from body_cases(
        CHAT,
        ({"tools": "all"}, TYPE, "tools"),
        ({"tools": {}}, TYPE, "tools"),
        ({"tools": [5]}, TYPE, "tools[0]"),
        ({"tools": [{}]}, MISSING, "tools[0].type"),
        ({"tools": [{"type": "web_search"}]}, UNSUPPORTED, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, MISSING, at),
        (with_function(), MISSING, at + ".name"),
        (with_function(name="a b"), VALUE, at + ".name"),
        (with_function(name="n" * 65), VALUE, at + ".name"),
        (with_function(name="f", description=5), TYPE, at + ".description"),
        (with_function(name="f", parameters="x"), TYPE, at + ".parameters"),
        (with_function(name="f", parameters={"type": "array"}), VALUE, at + ".parameters.type"),
        (with_function(name="f", strict="x"), TYPE, at + ".strict"),
        ({"tools": [TOOL, TOOL]}, VALUE, "tools[1].function.name"),
        ({"tools": [TOOL] * 129}, VALUE, "tools"),
        ({"tool_choice": "required"}, VALUE, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "any"}, VALUE, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": 5}, TYPE, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": named}, VALUE, "tool_choice.function.name"),
        ({"tools": [TOOL], "tool_choice": {}}, MISSING, "tool_choice.type"),
    )


def reply_formats():
    def schema(value):
        named = {"name": "n", "schema": value}
        return {"response_format": {"type": "json_schema", "json_schema": named}}

    at = "response_format"
    yield from body_cases(
        CHAT,
        ({at: "json"}, TYPE, at),
        ({at: {}}, MISSING, at + ".type"),
        ({at: {"type": "xml"}}, VALUE, at + ".type"),
        ({at: {"type": "json_schema"}}, MISSING, at + ".json_schema"),
        ({at: {"type": "json_schema", "json_schema": {}}}, MISSING, at + ".json_schema.name"),
        (schema("x"), TYPE, at + ".json_schema.schema"),
        (schema(True), TYPE, at + ".json_schema.schema"),
        (schema({"enum": ["x" * 300_000]}), VALUE, at + ".json_schema.schema"),
    )
    yield from body_cases(LLAMA, ({"json_schema": "x"}, TYPE, "json_schema"))


def completions():
    both = [COMPLETIONS, LLAMA]
    yield from field_cases(both, "prompt", MISSING, None)
    yield from field_cases(both, "prompt", TYPE, 5, {}, True)
    yield from field_cases(both, "prompt", VALUE, [])
    yield from field_cases([COMPLETIONS], "logprobs", VALUE, 6, -1)
    yield from field_cases([COMPLETIONS], "logprobs", TYPE, True)
    yield from field_cases([COMPLETIONS], "echo", TYPE, 1)
    yield from field_cases([COMPLETIONS], "suffix", UNSUPPORTED, "end")
    yield from field_cases([COMPLETIONS], "best_of", UNSUPPORTED, 2)
    yield from field_cases([COMPLETIONS], "max_tokens", VALUE, 0, -1)
    yield from field_cases([LLAMA], "n_predict", VALUE, -2)
    yield from field_cases([LLAMA], "n_predict", TYPE, "5", 2.5)
    yield from field_cases([LLAMA], "n_probs", VALUE, -1, 21, 10**6)
    yield from field_cases([LLAMA], "samplers", UNSUPPORTED, ["top_k"])
    yield from field_cases([LLAMA], "mirostat", UNSUPPORTED, 2)
    for path in both:
        yield from body_cases(
            path,
            ({"prompt": [None]}, TYPE, "prompt[0]"),
            ({"prompt": [[]]}, VALUE, "prompt[0]"),
            ({"prompt": [1, "a"]}, TYPE, "prompt[1]"),
            ({"prompt": [1, 2.5]}, TYPE, "prompt[1]"),
            ({"prompt": [-1]}, VALUE, "prompt[0]"),
            ({"prompt": [2**32]}, VALUE, "prompt[0]"),
            ({"prompt": ["a"] * 129}, VALUE, "prompt"),
        )
    yield from field_cases([TOKENIZE], "content", TYPE, 5, ["a"])
    yield from field_cases([TOKENIZE], "with_pieces", TYPE, 1)
    yield (TOKENIZE, {}, 400, MISSING, "content")
    yield from field_cases([DETOKENIZE], "tokens", TYPE, "x")
    yield from field_cases([DETOKENIZE], "tokens", MISSING, None)
    yield from body_cases(DETOKENIZE, ({"tokens": [-1]}, VALUE, "tokens[0]"))


def responses():
    yield from field_cases([RESPONSES], "temperature", TYPE, "hot")
    yield from field_cases([RESPONSES], "top_p", VALUE, 7)
    yield from field_cases([RESPONSES], "max_output_tokens", VALUE, 0, -1)
    yield from field_cases([RESPONSES], "max_output_tokens", TYPE, 2.5, "5")
    yield from field_cases([RESPONSES], "input", TYPE, 5, {})
    yield from field_cases([RESPONSES], "input", MISSING, None)
    yield from field_cases([RESPONSES], "instructions", TYPE, 5)
    yield from field_cases([RESPONSES], "store", TYPE, "no")
    yield from field_cases([RESPONSES], "stream", TYPE, "no")
    yield from field_cases([RESPONSES], "background", UNSUPPORTED, True)
    yield from field_cases([RESPONSES], "truncation", UNSUPPORTED, "auto")
    yield from field_cases([RESPONSES], "metadata", TYPE, [])
    yield from field_cases([RESPONSES], "tools", TYPE, "all")
    yield from body_cases(
        RESPONSES,
        ({"input": [5]}, TYPE, "input[0]"),
        ({"input": [{"role": "king", "content": "hi"}]}, VALUE, "input[0].role"),
        ({"tools": [{"type": "function", "name": "a b"}]}, VALUE, "tools[0].name"),
        ({"tools": [{"type": "function"}]}, MISSING, "tools[0].name"),
        ({"tool_choice": "required"}, VALUE, "tool_choice"),
        ({"text": {"format": {"type": "xml"}}}, VALUE, "text.format.type"),
        ({"metadata": {"a": 5}}, TYPE, "metadata.a"),
        (
            {"previous_response_id": "resp_none"},
            "previous_response_not_found",
            "previous_response_id",
        ),
    )


def whole_bodies():
    texts = [
        b"",
        b"{",
        b"not json",
        b'{"prompt":"a"} x',
        b'{"prompt":"a","prompt":"a"}',
        b'{"prompt":"\xc3\x28"}',
        b'{"prompt":"\xff"}',
        b'{"prompt":"\\ud800"}',
        b'{"prompt":"\\udc00\\ud800"}',
        b'{"prompt":"a\\u0000b"}',
        b'{"prompt":"a\x00b"}',
        b'{"prompt":"a","temperature":NaN}',
        b'{"prompt":"a","temperature":1e999}',
        b"[" * NESTED,
        b'{"x":' * NESTED,
        b'{"unknown":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    ]
    for path in (CHAT, COMPLETIONS, LLAMA, TOKENIZE):
        for text in texts:
            yield (path, text, 400, JSON, None)
        for text in (b"[]", b"null", b'"text"', b"3"):
            yield (path, text, 400, TYPE, None)
    for path in (CHAT, COMPLETIONS):
        yield (path, {**BASES[path], "model": "other"}, 404, "model_not_found", "model")


def all_cases():
    for rows in (
        numbers,
        shared_fields,
        chat_fields,
        chat_messages,
        tools,
        reply_formats,
        completions,
        responses,
        whole_bodies,
    ):
        yield from rows()


CASES = list(all_cases())


def name_of(case):
    path, body, _, code, param = case
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"{path}-{param}-{code}-{text[:60].decode('ascii', 'backslashreplace')}"


# ---- the server ---------------------------------------------------------------------------------


def ask(server, path, body, method="POST"):
    """Status and JSON of the reply, or its text where it is no JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
    try:
        connection.request(method, path, data, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        text = reply.read()
    finally:
        connection.close()
    try:
        return reply.status, json.loads(text)
    except ValueError:
        return reply.status, text.decode()


def expect_alive(server):
    status, reply = ask(server, COMPLETIONS, {"prompt": "One two", "max_tokens": 1})
    assert status == 200 and reply["usage"]["completion_tokens"] == 1, reply


def expect_error(server, case):
    path, body, status, code, param = case
    got, reply = ask(server, path, body)
    assert got == status, reply
    error = reply["error"]
    assert error["code"] == code, error
    assert error["param"] == param, error
    assert error["message"].isprintable() and len(error["message"]) < 500, error
    return error


@pytest.fixture(scope="module")
def server(servers):
    flags = ("--ctx-size", "1024")
    running = Server(servers.binary(), servers.model_path("smollm2"), flags)
    expect_alive(running)
    # What a large body costs is known before the table begins.
    ask(running, CHAT, {"messages": [{"role": "user", "content": "x" * 10_000_000}]})
    expect_alive(running)
    running.pid_before = running.pid
    running.bytes_before = running.resident_bytes()
    yield running
    assert running.stop() == 0


def test_the_table_is_as_large_as_it_says():
    assert len(CASES) >= 150
    assert len({name_of(case) for case in CASES}) > 300


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_refused(server, case):
    expect_error(server, case)
    expect_alive(server)


# ---- what is large or deep ----------------------------------------------------------------------


def fields_of(server, path):
    document = server.get("/openapi.json")
    return document["components"]["schemas"][SCHEMAS[path]]["properties"]


@pytest.mark.parametrize("path", SCHEMAS, ids=str)
def test_nested_brackets_in_every_field(server, path):
    fields = fields_of(server, path)
    for field in fields:
        for text in (b"[" * NESTED, b"[" * NESTED + b"]" * NESTED, b'{"a":' * NESTED):
            body = b'{"%s":%s}' % (field.encode(), text)
            error = expect_error(server, (path, body, 400, JSON, None))
            if text[:1] == b"[":
                assert f"{NESTED} levels" in error["message"] or "100001" in error["message"], error
    expect_alive(server)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, LLAMA], ids=str)
def test_null_is_absent(server, path):
    for field in fields_of(server, path):
        if field in BASES[path]:
            continue
        status, reply = ask(server, path, {**BASES[path], field: None})
        assert status == 200, (field, reply)


@pytest.mark.parametrize(
    "pattern",
    ["(" * 60_000 + ")" * 60_000, "(" * 60_000, "[", "a{2,1}", "(?<", "\\", "*", "a\\"],
    ids=lambda pattern: pattern[:12],
)
def test_hostile_patterns(server, pattern):
    schema = {"type": "string", "pattern": pattern}
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    status, reply = ask(server, CHAT, {**BASES[CHAT], "response_format": wanted})
    assert status == 400 and reply["error"]["param"].startswith("response_format"), reply
    expect_alive(server)
    parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    status, reply = ask(server, CHAT, {**BASES[CHAT], "tools": [tool], "tool_choice": "required"})
    assert status == 400 and reply["error"]["param"].startswith("tools"), reply
    expect_alive(server)
    status, reply = ask(server, LLAMA, {**BASES[LLAMA], "json_schema": schema})
    assert status == 400, reply
    expect_alive(server)


def test_patterns_that_may_be_read_either_way(server):
    for pattern in ("^+[a-z]$", "(?i)a", "\\p{L}+", "a|", "^$", ".*.*.*.*x", "a{1000000000}"):
        schema = {"type": "string", "pattern": pattern}
        wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        status, reply = ask(server, CHAT, {**BASES[CHAT], "response_format": wanted})
        assert status in (200, 400), reply
        expect_alive(server)


def test_descriptions_of_tools_may_say_anything(server):
    for text in ('"}]}', "{{ x }}", "{% raise %}", "<|im_end|>", "\u202e\U0001d518", "\n" * 200):
        function = {**TOOL["function"], "description": text}
        tool = {"type": "function", "function": function}
        status, reply = ask(server, CHAT, {**BASES[CHAT], "tools": [tool]})
        assert status == 200, (text, reply)
        expect_alive(server)


@pytest.mark.parametrize(
    "text",
    ["x" * 50_000, "\n" * 50_000, "word " * 200_000, "x" * 10_000_000, "a b" * 3_000_000],
    ids=lambda text: f"{text[:5]!r}-{len(text)}",
)
def test_large_messages(server, text):
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    status, reply = ask(server, CHAT, body)
    assert status == 400, reply
    assert reply["error"]["code"] == "context_length_exceeded", reply
    numbers = [word for word in reply["error"]["message"].split() if word.strip(".,:;()").isdigit()]
    assert len(numbers) >= 2, reply
    expect_alive(server)


def test_a_body_beyond_the_limit(server):
    status, reply = ask(server, CHAT, {"messages": [{"role": "user", "content": "x" * (20 << 20)}]})
    assert status == 413 and reply["error"]["code"], reply
    expect_alive(server)


def test_prompts_around_the_limit(server):
    longest = server.get("/v1/models")["data"][0]["max_model_len"]
    for length, expected in ((longest - 1, 200), (longest, 400), (longest + 1, 400)):
        status, reply = ask(server, COMPLETIONS, {"prompt": [5] * length, "max_tokens": 1})
        assert status == expected, (length, reply)
        if expected == 400:
            assert reply["error"]["code"] == "context_length_exceeded", reply
        expect_alive(server)


def test_what_agents_send_is_accepted(server):
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    answer = {"role": "tool", "tool_call_id": "c", "content": "x"}
    for members in (
        {"messages": [USER, called, answer]},
        {"messages": [USER, {"role": "assistant", "content": ""}, USER]},
        {"stop": []},
        {"logit_bias": {}},
        {"top_k": -1},
        {"tools": []},
        {"tool_choice": "auto"},
        {"response_format": {"type": "text"}},
    ):
        status, reply = ask(server, CHAT, {**BASES[CHAT], **members})
        assert status == 200, (members, reply)


def test_the_process_and_its_memory_are_as_before(server):
    """Resident memory twice: against the start, and over a second pass of all that was refused."""
    server.wait_until_idle()
    server.reset_cache()
    first = server.resident_bytes()
    assert first - server.bytes_before < GROWTH_MAX
    for case in CASES:
        expect_error(server, case)
    expect_alive(server)
    server.wait_until_idle()
    server.reset_cache()
    assert server.resident_bytes() - first < LEAK_MAX
    assert server.is_running() and server.pid == server.pid_before
