# A stream's pieces together are the reply that is not streamed, wherever a limit or a stop string
# cuts it, and each piece is whole characters; usage comes where OpenAI says it does.
from concurrent.futures import ThreadPoolExecutor

import pytest
from raw import post, read_to_end, request_bytes, stream_of

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
# Characters that are several tokens; the models repeat them.
ASKS = ["Say 🙂🙃🚀 again: 🙂🙃🚀🙂🙃🚀", "Grüße, 東京, Ελλάδα, السلام: Grüße, 東京,"]
LENGTH = 24
AT_ONCE = 8


def request(path, text, **fields):
    subject = (
        {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"prompt": text}
    )
    return {"model": "test", "temperature": 0, "max_tokens": LENGTH, **subject, **fields}


def text_of(choice):
    if "message" in choice:
        return choice["message"]["content"]
    return choice["text"]


def whole(server, path, body):
    """[(text, finish reason, token ids)] of the choices, and the usage."""
    status, reply = post(server, path, {**body, "return_token_ids": True})
    assert status == 200, reply
    choices = [(text_of(c), c["finish_reason"], c["token_ids"]) for c in reply["choices"]]
    return choices, reply["usage"]


def streamed(server, path, body):
    chunks = stream_of(server, path, {**body, "return_token_ids": True})
    count = body.get("n", 1)
    texts, reasons, ids = [""] * count, [None] * count, [[] for _ in range(count)]
    for chunk in chunks:
        for choice in chunk["choices"]:
            index = choice["index"]
            assert reasons[index] is None, "a choice goes on after its finish reason"
            piece = choice["delta"].get("content") if path == CHAT else choice["text"]
            texts[index] += piece or ""
            ids[index] += choice.get("token_ids") or []
            reasons[index] = choice["finish_reason"]
    return list(zip(texts, reasons, ids)), chunks


def check_equal(server, path, body):
    expected, _ = whole(server, path, body)
    got, _ = streamed(server, path, body)
    assert got == expected, body
    return expected


# Byte-level tokens and tokens with a byte fallback: the second model need not do everything.
CASES = [("smollm2", path, text) for path in (CHAT, COMPLETIONS) for text in ASKS]
CASES += [("gemma3", COMPLETIONS, ASKS[0])]
every_case = pytest.mark.parametrize(
    "model,path,text", CASES, ids=[f"{c[0]}{c[1]}-{ASKS.index(c[2])}" for c in CASES]
)


def check_all(server, path, bodies):
    """The choices of each, asked for at the same time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda body: check_equal(server, path, body), bodies))


@every_case
def test_every_cut_by_max_tokens(servers, model, path, text):
    limits = range(1, LENGTH + 1)
    bodies = [request(path, text, max_tokens=limit) for limit in limits]
    cuts = check_all(servers.get(model), path, bodies)
    longest = cuts[-1][0]
    for limit, (cut,) in zip(limits, cuts):
        assert cut[2] == longest[2][:limit]
        # What is cut within a character ends with its replacement, on both ways.
        assert longest[0].startswith(cut[0].rstrip("\ufffd"))
        if limit < len(longest[2]):
            assert cut[1] == "length"


def stops_of(text):
    """Pieces of the reply, and beginnings of pieces that do not come: those must be flushed."""
    for begin in (1, len(text) // 2, max(0, len(text) - 3)):
        for length in (1, 4):
            piece = text[begin : begin + length]
            if piece:
                yield [piece]
    yield [text[len(text) // 3 :] + "\u0001"]
    yield ["\u0001", text[-1:] + "never"]


@every_case
def test_every_stop(servers, model, path, text):
    server = servers.get(model)
    longest, reason, _ = check_equal(server, path, request(path, text))[0]
    stops = list(stops_of(longest))
    cuts = check_all(server, path, [request(path, text, stop=stop) for stop in stops])
    for stop, ((got, why, _),) in zip(stops, cuts):
        places = [longest.find(each) for each in stop if each in longest]
        if places:
            assert got == longest[: min(places)] and why == "stop", stop
        else:
            assert got == longest and why == reason, stop


@every_case
def test_several_choices(servers, model, path, text):
    bodies = [
        request(path, text, max_tokens=limit, n=2, temperature=1.2, seed=limit, stop=stop)
        for limit in (1, 3, LENGTH)
        for stop in (None, ["e", " "])
    ]
    check_all(servers.get(model), path, bodies)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_the_usage_chunk(servers, path):
    server = servers.get("smollm2")
    for count in (1, 2):
        body = request(path, ASKS[0], n=count, temperature=1, seed=1)
        _, usage = whole(server, path, body)
        _, silent = streamed(server, path, body)
        assert all("usage" not in chunk and chunk["choices"] for chunk in silent)
        _, off = streamed(server, path, {**body, "stream_options": {"include_usage": False}})
        assert all("usage" not in chunk and chunk["choices"] for chunk in off)
        _, chunks = streamed(server, path, {**body, "stream_options": {"include_usage": True}})
        last = chunks.pop()
        assert all(chunk["usage"] is None and chunk["choices"] for chunk in chunks)
        assert last["choices"] == []
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert last["usage"][name] == usage[name], name
        assert {chunk["id"] for chunk in chunks} == {last["id"]}
    status, reply = post(server, path, {**body, "stream_options": {"include_usage": True}})
    assert status == 400 and reply["error"]["param"].startswith("stream_options")


def test_a_stream_whose_end_is_larger_than_what_may_wait(servers):
    """All log probabilities come again with the last events, in one go: more than 8 MiB."""
    server = servers.get("smollm2")
    body = {
        "input": ASKS[0],
        "max_output_tokens": 2000,
        "stream": True,
        "temperature": 0,
        "top_logprobs": 20,
        "include": ["message.output_text.logprobs"],
        "store": False,
        "ignore_eos": True,
    }
    connection = server.connect()
    connection.sendall(request_bytes("/v1/responses", body).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    reply = read_to_end(connection)
    deltas = reply.rfind(b"event: response.output_text.delta")
    assert len(reply) - deltas > 8 << 20
    assert reply.count(b"event: response.incomplete\n") == 1 and reply.endswith(b"}\n\n")
