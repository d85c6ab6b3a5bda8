# Requests recorded from agents and SDKs (fixtures/agents, see fixtures/README.md), replayed in
# their order: each is answered with 200 and in the shape that its client reads, and what goes on
# with an earlier request finds that one's whole prompt in the cache.
import http.client
import json
from pathlib import Path

import pytest
from raw import post, stream_of
from test_fixtures import check_response, check_streamed_chat, check_whole_chat

REPLY_TOKENS = 16
UNSTABLE_TOKENS = 8  # at a prompt's end, which text behind them may tokenise otherwise
FOLDER = Path(__file__).parent / "fixtures" / "agents"
CLIENTS = sorted(path.stem for path in FOLDER.glob("*.json"))
LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
ENDS = {"response.completed", "response.incomplete"}
# What each kind of item is made of, in order: its deltas come between "added" and "done".
ITEM_EVENTS = {
    "message": ["content_part.added", "output_text.done", "content_part.done"],
    "function_call": ["function_call_arguments.done"],
}


def shortened(path, body):
    if path == "/v1/responses":
        return {**body, "max_output_tokens": REPLY_TOKENS}
    body = {name: value for name, value in body.items() if name not in LIMIT_NAMES}
    return {**body, "max_tokens": REPLY_TOKENS}


def with_own_references(body, reply):
    """References to items of the recorded reply become ones to the reply of this run."""
    items = []
    for item in body.get("input", []):
        is_reference = item.get("type") == "item_reference"
        items.append({**item, "id": reply["output"][0]["id"]} if is_reference else item)
    return {**body, "input": items} if items else body


def response_events(server, body):
    """The events of a streamed response, each under its own `event:` line."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request("POST", "/v1/responses", json.dumps(body))
    answer = connection.getresponse()
    received = answer.read().decode()
    connection.close()
    assert answer.status == 200, received
    events = []
    for block in received.strip().split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if not lines:
            continue
        assert [line.split(": ")[0] for line in lines] == ["event", "data"]
        events.append(json.loads(lines[1].removeprefix("data: ")))
        assert events[-1]["type"] == lines[0].removeprefix("event: ")
    return events


def check_item_events(events, item):
    """What a client puts together from one item's events is the item at their end."""
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert (kinds[0], kinds[-1]) == ("output_item.added", "output_item.done")
    assert events[0]["item"]["id"] == item["id"] and events[-1]["item"] == item
    assert all(event["item_id"] == item["id"] for event in events[1:-1])
    others = [kind for kind in kinds[1:-1] if not kind.endswith(".delta")]
    assert others == ITEM_EVENTS[item["type"]]
    text = "".join(event["delta"] for event in events if event["type"].endswith(".delta"))
    if item["type"] == "message":
        assert text == item["content"][0]["text"]
    else:
        assert text == item["arguments"]
        assert events[0]["item"]["name"] == item["name"]
        assert events[0]["item"]["call_id"] == item["call_id"]
        assert events[0]["item"].get("namespace") == item.get("namespace")


def check_response_events(events):
    """Returns the response that the last event has."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] in ENDS
    reply = events[-1]["response"]
    assert events[0]["response"]["id"] == reply["id"]
    for index, item in enumerate(reply["output"]):
        check_item_events([e for e in events if e.get("output_index") == index], item)
    return reply


def check_object(reply):
    """A response held to a schema: an object of the name and the age, unless it was cut off."""
    if reply["status"] == "completed":
        (item,) = reply["output"]
        assert set(json.loads(item["content"][0]["text"])) == {"name", "age"}


def replay(server, path, body):
    """Sends a request and checks its answer; returns the whole reply, and usage in chat's names."""
    if path == "/v1/responses":
        if body.get("stream"):
            reply = check_response_events(response_events(server, body))
        else:
            status, reply = post(server, path, body)
            assert status == 200, reply
        check_response(reply, body)
        if body.get("text"):
            check_object(reply)
        usage = reply["usage"]
        return reply, usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]
    if body.get("stream"):
        chunks = stream_of(server, path, body)
        check_streamed_chat(chunks, body)
        usage = chunks[-1].get("usage")
        reply = None
    else:
        status, reply = post(server, path, body)
        assert status == 200, reply
        check_whole_chat(reply, body)
        usage = reply["usage"]
    if usage is None:  # of a client that does not ask for it (aider)
        return reply, 0, 0
    return reply, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("client", CLIENTS)
def test_recorded_client(warm, client):
    recorded = json.loads((FOLDER / f"{client}.json").read_text())
    prompts, reply = {}, None
    for name, request in recorded["requests"].items():
        path = request["path"]
        body = with_own_references(shortened(path, request["body"]), reply)
        reply, prompts[name], cached = replay(warm, path, body)
        if "extends" in request:
            before = prompts[request["extends"]]
            assert prompts[name] > before > UNSTABLE_TOKENS, name
            assert cached >= before - UNSTABLE_TOKENS, name
