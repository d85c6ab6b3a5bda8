# Requests that are wrong: each gets its status, code and parameter, and harms nothing. After each
# the server answers a normal request; at the end it is the same process in the same memory.
import http.client
import json

import pytest
from malformed_cases import (
    BASES,
    CALL,
    CASES,
    CHAT,
    COMPLETIONS,
    JSON,
    LLAMA,
    NESTED,
    SCHEMAS,
    TOOL,
    USER,
    name_of,
)
from server import Server

GROWTH_MAX = 96 << 20  # what malloc may keep of bodies of 10 MB that were read once
LEAK_MAX = 24 << 20  # what a second pass over the whole table may add to that


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


def test_the_trouble_of_a_text_that_is_no_json_is_named(server):
    for body, words in (
        (b'{"prompt":"a",}', "byte 14: a comma before a closing bracket"),
        (b"{'prompt':'a'}", "byte 1: a single quote"),
        (b'{"prompt":"\\ud800"}', "a lone surrogate"),
        (b'{"prompt":"a\nb"}', "byte 12: a control character in a string"),
        (b"prompt=a", "byte 0: a word other than true, false and null"),
    ):
        error = expect_error(server, (COMPLETIONS, body, 400, JSON, None))
        assert words in error["message"], error


def test_what_is_not_offered_is_named(server):
    for path in ("/v1/embeddings", "/v1/audio/speech", "/v1/responses/compact", "/api/chat"):
        status, reply = ask(server, path, {"input": "a"})
        assert status == 404 and reply["error"]["code"] == "not_found", reply
        assert "not offered here" in reply["error"]["message"], reply
    status, reply = ask(server, "/", b"", "GET")
    assert status == 200 and reply["name"] == "reprise", reply
    assert ask(server, "/", b"", "HEAD") == (200, "")


def test_ignored_fields_are_named_in_a_header(server):
    for stream in (False, True):
        body = json.dumps({**BASES[CHAT], "temprature": 0, "odd\n": 1, "stream": stream})
        connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
        connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        reply.read()
        connection.close()
        assert reply.status == 200
        assert reply.getheader("x-reprise-ignored") == "temprature"


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
    function = {"name": "f", "strict": True, "parameters": parameters}
    tool = {"type": "function", "function": function}
    status, reply = ask(server, CHAT, {**BASES[CHAT], "tools": [tool], "tool_choice": "required"})
    # Tools stand in the prompt: one as long as this never gets to its grammar.
    too_long = reply["error"]["code"] == "context_length_exceeded" and len(pattern) > 1000
    assert status == 400 and (too_long or reply["error"]["param"].startswith("tools")), reply
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
        {"verbosity": "medium"},
        {"reasoning_format": "auto", "parse_tool_calls": True},
        {"top_n_sigma": -1, "min_keep": 0, "t_max_predict_ms": 0, "n_indent": 0},
        {"add_special_tokens": False, "include_reasoning": True, "separate_reasoning": True},
        {"max_tokens": -1, "stop": ["\n", " "]},
        {"reasoning_effort": "max"},
        {"reasoning": {"effort": "low"}},
        {"messages": [USER, {**called, "content": []}, {**answer, "content": []}]},
        {"messages": [USER, {"role": "assistant", "content": "Once", "prefix": True}]},
        {"stop_sequences": [], "format": "", "options": {}, "n_probs": 0, "mirostat_mode": 0},
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
