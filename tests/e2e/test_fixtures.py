# Requests recorded from LangChain and Open WebUI (fixtures/README.md): each is answered in the
# shape that its client reads, or refused by name.
import http.client
import json
from pathlib import Path

import pytest
from raw import events_of

REPLY_TOKENS = 48  # of a fixture that asks for more, or says nothing: tests are to be short
FOLDER = Path(__file__).parent / "fixtures"
LIMIT_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def fixtures():
    for path in sorted(FOLDER.glob("*.json")):
        for name, case in json.loads(path.read_text()).items():
            yield pytest.param(case, id=f"{path.stem}-{name}")


@pytest.fixture(scope="module")
def server(servers):
    return servers.get("smollm2")


def shortened(path, body):
    body = dict(body)
    used = [name for name in LIMIT_NAMES if name in body]
    for name in used or ["max_output_tokens" if path == "/v1/responses" else "max_tokens"]:
        body[name] = min(body.get(name, REPLY_TOKENS), REPLY_TOKENS)
    return body


def send(server, case, body):
    """Status and bytes of the reply; the client's own headers where they were recorded."""
    headers = case.get("headers", {"Content-Type": "application/json"})
    connection = http.client.HTTPConnection(server.host, server.port, timeout=300)
    data = None if body is None else json.dumps(body).encode()
    connection.request(case.get("method", "POST"), case["path"], data, headers)
    reply = connection.getresponse()
    result = reply.status, reply.read()
    connection.close()
    return result


def check_usage(usage):
    assert usage["prompt_tokens"] > 0 and usage["completion_tokens"] > 0
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def check_calls(calls, body):
    """Each call names a function that was offered; its arguments are text."""
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    for call in calls:
        assert call["type"] == "function" and call["id"]
        assert call["function"]["name"] in names
        assert isinstance(call["function"]["arguments"], str)


def check_message(message, finish_reason, body):
    """What a whole reply and the sum of a stream have in common."""
    calls = message.get("tool_calls") or []
    check_calls(calls, body)
    assert finish_reason in ("stop", "length", "tool_calls")
    assert (finish_reason == "tool_calls") <= bool(calls)
    choice = body.get("tool_choice")
    if choice == "required" or isinstance(choice, dict):
        assert calls
    if isinstance(choice, dict):
        assert [call["function"]["name"] for call in calls] == [choice["function"]["name"]]
        if finish_reason != "length":
            json.loads(calls[0]["function"]["arguments"])
    if body.get("parallel_tool_calls") is False:
        assert len(calls) <= 1
    shape = (body.get("response_format") or {"type": "text"})["type"]
    if shape != "text" and finish_reason == "stop":
        value = json.loads(message["content"])
        assert isinstance(value, dict)
        if shape == "json_schema":
            assert set(value) == {"name", "age"} and isinstance(value["age"], int)


def check_whole_chat(reply, body):
    assert reply["object"] == "chat.completion" and reply["model"] == "test"
    assert len(reply["choices"]) == body.get("n", 1)
    for index, choice in enumerate(reply["choices"]):
        assert choice["index"] == index and choice["message"]["role"] == "assistant"
        assert isinstance(choice["message"]["content"], str | None)
        check_message(choice["message"], choice["finish_reason"], body)
        if body.get("logprobs"):
            assert choice["logprobs"]["content"][0]["top_logprobs"]
    check_usage(reply["usage"])


def check_streamed_chat(chunks, body):
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    message, finish_reason, calls = {"content": ""}, None, {}
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            finish_reason = choice["finish_reason"] or finish_reason
            for piece in delta.get("tool_calls") or []:
                call = calls.setdefault(piece["index"], {"function": {"arguments": ""}})
                call["id"] = piece.get("id") or call["id"]
                call["type"] = piece.get("type") or call["type"]
                function = piece.get("function") or {}
                call["function"]["name"] = function.get("name") or call["function"]["name"]
                call["function"]["arguments"] += function.get("arguments") or ""
    message["tool_calls"] = list(calls.values())
    check_message(message, finish_reason, body)
    if body.get("stream_options", {}).get("include_usage"):
        assert chunks[-1]["choices"] == []
        check_usage(chunks[-1]["usage"])
    else:
        assert all(not chunk.get("usage") for chunk in chunks)


def check_completion(reply, body):
    assert reply["object"] == "text_completion"
    assert [choice["index"] for choice in reply["choices"]] == list(range(len(body["prompt"])))
    assert all(isinstance(choice["text"], str) for choice in reply["choices"])
    check_usage(reply["usage"])


def check_response(reply, _body):
    assert reply["object"] == "response" and reply["status"] in ("completed", "incomplete")
    assert reply["output"] and reply["usage"]["output_tokens"] > 0
    for item in reply["output"]:
        assert item["type"] in ("message", "function_call", "reasoning")


def check_streamed_response(events, body):
    """The deltas are what the last event's whole response says."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] in ("response.completed", "response.incomplete")
    reply = events[-1]["response"]
    check_response(reply, body)
    names = [tool["name"] for tool in body.get("tools", [])]
    for index, item in enumerate(reply["output"]):
        mine = [event for event in events if event.get("output_index") == index]
        said = "".join(event["delta"] for event in mine if event["type"].endswith(".delta"))
        if item["type"] == "function_call":
            assert item["name"] in names and item["call_id"] and said == item["arguments"]
        else:
            assert said == item["content"][0]["text"]
        assert mine[-1] == {**mine[-1], "type": "response.output_item.done", "item": item}


def check_models(reply, _body):
    assert reply["object"] == "list"
    assert [(model["id"], model["object"]) for model in reply["data"]] == [("test", "model")]


WHOLE = {
    "/v1/chat/completions": check_whole_chat,
    "/v1/completions": check_completion,
    "/v1/models": check_models,
    "/v1/responses": check_response,
}


def check_streamed(path, received, body):
    events = events_of(received)
    if path == "/v1/responses":
        check_streamed_response([json.loads(event) for event in events], body)
        return
    assert events.pop() == "[DONE]"
    check_streamed_chat([json.loads(event) for event in events], body)


@pytest.mark.parametrize("case", list(fixtures()))
def test_recorded_request(server, case):
    path, body = case["path"], case.get("body")
    if body is not None:
        body = shortened(path, body)
    status, received = send(server, case, body)
    if "refused" in case:
        error = json.loads(received)["error"]
        assert status == 400 and error["param"] == case["refused"] and error["message"]
        return
    assert status == 200, received
    if body and body.get("stream"):
        check_streamed(path, received, body)
    else:
        WHOLE[path](json.loads(received), body)
