# OpenAI's Responses API through the typed Python client.
import copy
import json
import urllib.error
import urllib.request

import openai
import pytest
from pydantic import BaseModel
from server import Server
from texts import words

KEYS = "alice alice-secret\nbob bob-secret\n"
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


CALC = {
    "type": "namespace",
    "name": "mcp__calc",
    "description": "Sums.",
    "tools": [
        {
            "type": "function",
            "name": "add",
            "description": "Adds.",
            "parameters": {"type": "object", "properties": {"a": {"type": "boolean"}}},
        }
    ],
}
SEARCH = {"type": "web_search"}
BAD = {"type": "object", "properties": {"a": {"type": 7}}}
FORMAT = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}


class Answer(BaseModel):
    count: int
    is_red: bool


@pytest.fixture(scope="module")
def server(servers):
    return servers.get("smollm2")


@pytest.fixture(scope="module")
def two_tenants(servers, tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(KEYS, encoding="ascii")
    path.chmod(0o600)
    server = Server(servers.binary(), servers.model_path("smollm2"), ("--api-key-file", str(path)))
    yield server
    server.stop()


def as_key(server, key):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)


def create(server, question, **options):
    options = {"temperature": 0, "max_output_tokens": 16, **options}
    return server.client.responses.create(model="test", input=question, **options)


def post(server, body):
    """Status and error of a request that the client would not send."""
    request = urllib.request.Request(
        server.url + "/v1/responses",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]


def check_strictly(response):
    """The client builds models without checking them; this checks every field."""
    type(response).model_validate(response.model_dump(by_alias=True), strict=False)


def test_create_is_typed_and_says_what_chat_says(server):
    response = create(server, "Say hello.", instructions="Be kind.")
    check_strictly(response)
    assert response.object == "response" and response.id.startswith("resp_")
    assert response.status in ("completed", "incomplete")
    assert response.instructions == "Be kind."
    assert response.output[0].type == "message"
    usage = response.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert usage.output_tokens_details.reasoning_tokens == 0
    chat = server.chat(
        [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Say hello."}],
        max_tokens=16,
    )
    assert response.output_text == chat.text
    assert usage.input_tokens == chat.prompt_tokens


def test_input_tokens_are_counted_as_they_are_made(server):
    count = server.client.responses.input_tokens.count
    first = create(server, "Say hello.", instructions="Be kind.")
    same = count(input="Say hello.", instructions="Be kind.")
    check_strictly(same)
    assert same.object == "response.input_tokens"
    assert same.input_tokens == first.usage.input_tokens
    second = create(server, "Again.", previous_response_id=first.id, tools=[WEATHER])
    counted = count(input="Again.", previous_response_id=first.id, tools=[WEATHER])
    assert counted.input_tokens == second.usage.input_tokens
    with pytest.raises(openai.NotFoundError, match="not offered here"):
        server.client.post("/responses/compact", body={"input": "a"}, cast_to=object)


def test_what_is_cut_off_is_incomplete(server):
    response = create(server, words(20, seed=3), max_output_tokens=2)
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.completed_at is None


def test_a_stream_is_the_whole_reply(server):
    whole = create(server, "Count to three.", max_output_tokens=12)
    events = list(create(server, "Count to three.", max_output_tokens=12, stream=True))
    for event in events:
        check_strictly(event)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:4]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert events[-1].type in ("response.completed", "response.incomplete")
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(pieces) == whole.output_text
    assert events[-1].response.output_text == whole.output_text
    assert events[0].response.id == events[-1].response.id


def test_the_clients_stream_helper(server):
    with server.client.responses.stream(
        model="test",
        input="How many?",
        temperature=0,
        max_output_tokens=200,
        text_format=Answer,
    ) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                assert event.snapshot.endswith(event.delta)
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Answer)
    assert final.output_parsed == Answer.model_validate_json(final.output_text)


def test_parse_gives_an_object(server):
    response = server.client.responses.parse(
        model="test",
        input="How many red balls?",
        text_format=Answer,
        temperature=0,
        max_output_tokens=200,
    )
    assert isinstance(response.output_parsed, Answer)
    assert response.text.format.type == "json_schema"


def call_of(response):
    calls = [item for item in response.output if item.type == "function_call"]
    assert len(calls) == 1, response.output
    assert calls[0].name == "weather" and calls[0].status == "completed"
    assert set(json.loads(calls[0].arguments)) == {"city"}
    return calls[0]


def test_a_loop_with_tools(server):
    options = {"tools": [WEATHER], "parallel_tool_calls": False}
    history = [{"role": "user", "content": "How is the weather in Rome?"}]
    first = create(server, history, tool_choice="required", max_output_tokens=100, **options)
    check_strictly(first)
    assert first.tool_choice == "required" and first.tools[0].name == "weather"
    call = call_of(first)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."}

    kept = create(server, [result], previous_response_id=first.id, tool_choice="none", **options)
    assert kept.output_text
    history += [item.model_dump(exclude_none=True) for item in first.output] + [result]
    sent = create(server, history, tool_choice="none", **options)
    assert sent.output_text == kept.output_text
    assert sent.usage.input_tokens == kept.usage.input_tokens


def test_a_streamed_call(server):
    options = {
        "tools": [WEATHER],
        "tool_choice": {"type": "function", "name": "weather"},
        "parallel_tool_calls": False,
    }
    question = "How is the weather in Rome?"
    with server.client.responses.stream(
        model="test", input=question, temperature=0, max_output_tokens=100, **options
    ) as stream:
        events = list(stream)
        final = stream.get_final_response()
    call = call_of(final)
    pieces = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(pieces) == call.arguments
    whole = create(server, question, max_output_tokens=100, **options)
    assert call_of(whole).arguments == call.arguments


def same_prompt(server, body, chat):
    """Whether a response and a chat are made from the same prompt."""
    chat = {"model": "test", "max_tokens": 1, **chat}
    prompt = server.client.chat.completions.create(**chat).usage.prompt_tokens
    return create(server, body.pop("input"), **body).usage.input_tokens == prompt


# The model knows the function by one name, the client by a namespace and a name.
def test_a_function_of_a_namespace(warm):
    question = [{"role": "user", "content": "What is one and one?"}]
    options = {
        "tools": [WEATHER, CALC],
        "tool_choice": {"type": "function", "name": "add", "namespace": "mcp__calc"},
    }
    first = create(warm, question, max_output_tokens=100, **options)
    check_strictly(first)
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert (call.namespace, call.name) == ("mcp__calc", "add")
    assert [tool.type for tool in first.tools] == ["function", "namespace"]
    with warm.client.responses.stream(
        model="test", input=question, temperature=0, max_output_tokens=100, **options
    ) as stream:
        events = list(stream)
    added = [event.item for event in events if event.type == "response.output_item.added"]
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [(item.namespace, item.name) for item in added + done] == [("mcp__calc", "add")] * 2
    assert done[0].arguments == call.arguments

    result = {"type": "function_call_output", "call_id": call.call_id, "output": "2"}
    options["tool_choice"] = "auto"
    kept = create(warm, [result], previous_response_id=first.id, **options)
    history = question + [item.model_dump(exclude_none=True) for item in first.output] + [result]
    sent = create(warm, history, **options)
    assert sent.usage.input_tokens == kept.usage.input_tokens
    assert sent.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens * 9 // 10
    # As a chat with a function of that name has it.
    function = {**CALC["tools"][0], "name": "mcp__calc__add"}
    function["description"] = "mcp__calc__*: Sums.\n\nAdds."
    chat_tools = [
        {"type": "function", "function": {n: v for n, v in tool.items() if n != "type"}}
        for tool in (WEATHER, function)
    ]
    called = {"name": "mcp__calc__add", "arguments": call.arguments}
    calls = [{"id": call.call_id, "type": "function", "function": called}]
    messages = question + [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": call.call_id, "content": "2"},
    ]
    chat = {"messages": messages, "tools": chat_tools}
    assert same_prompt(warm, {"input": history, **options}, chat)


def test_a_tool_that_nobody_runs_is_left_out(server):
    body = {"tools": [WEATHER, SEARCH], "parallel_tool_calls": False}
    response = create(server, "How is the weather?", **body)
    check_strictly(response)
    assert [tool.type for tool in response.tools] == ["function"]
    without = create(server, "How is the weather?", tools=[WEATHER], parallel_tool_calls=False)
    assert response.usage.input_tokens == without.usage.input_tokens
    assert create(server, "Hi", tools=[SEARCH], tool_choice="none").tools == []


def test_a_conversation_kept_here_hits_the_cache(warm):
    first = create(warm, "Remember: " + words(120, seed=3), max_output_tokens=8)
    second = create(
        warm, "And now?", previous_response_id=first.id, instructions=None, max_output_tokens=8
    )
    assert second.previous_response_id == first.id
    cached = second.usage.input_tokens_details.cached_tokens
    assert cached >= first.usage.input_tokens * 9 // 10
    history = [
        {"role": "user", "content": "Remember: " + words(120, seed=3)},
        *[item.model_dump(exclude_none=True) for item in first.output],
        {"role": "user", "content": "And now?"},
    ]
    sent = create(warm, history, max_output_tokens=8)
    assert sent.usage.input_tokens == second.usage.input_tokens
    assert sent.output_text == second.output_text
    chat = warm.chat(
        [
            {"role": "user", "content": "Remember: " + words(120, seed=3)},
            {"role": "assistant", "content": first.output_text},
            {"role": "user", "content": "And now?"},
        ],
        max_tokens=8,
    )
    assert chat.text == second.output_text and chat.prompt_tokens == second.usage.input_tokens


def test_instructions_are_of_one_response(server):
    first = create(server, "Hi", instructions="Speak of " + words(40, seed=3))
    second = create(server, "Again", previous_response_id=first.id)
    assert second.instructions is None
    assert second.usage.input_tokens < first.usage.input_tokens + 40


def test_retrieve_list_and_delete(server):
    client = server.client
    first = create(server, "One", metadata={"a": "b"})
    second = create(server, "Two", previous_response_id=first.id)
    again = client.responses.retrieve(second.id)
    assert again.to_dict() == second.to_dict()
    assert client.responses.retrieve(first.id).metadata == {"a": "b"}
    items = list(client.responses.input_items.list(second.id, order="asc", limit=2))
    assert [item.type for item in items] == ["message"] * 3
    assert [item.role for item in items] == ["user", "assistant", "user"]
    assert items[0].content[0].text == "One"
    newest = client.responses.input_items.list(second.id, limit=1)
    assert newest.data[0].content[0].text == "Two" and newest.has_more
    client.responses.delete(first.id)
    for gone in (first.id, "resp_none"):
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(gone)
        with pytest.raises(openai.NotFoundError):
            client.responses.delete(gone)
        with pytest.raises(openai.BadRequestError) as raised:
            create(server, "Three", previous_response_id=gone)
        assert raised.value.code == "previous_response_not_found"
    assert create(server, "Three", previous_response_id=second.id).output_text


def test_what_shall_not_be_kept_is_not(server):
    response = create(server, "One", store=False)
    with pytest.raises(openai.NotFoundError):
        server.client.responses.retrieve(response.id)


def test_references_to_kept_items(server):
    first = create(server, "One")
    message = {"role": "user", "content": "Two"}
    by_reference = create(
        server,
        [
            {"role": "user", "content": "One"},
            {"type": "item_reference", "id": first.output[0].id},
            message,
        ],
    )
    kept = create(server, [message], previous_response_id=first.id)
    assert by_reference.output_text == kept.output_text
    assert by_reference.usage.input_tokens == kept.usage.input_tokens
    with pytest.raises(openai.BadRequestError) as raised:
        create(server, [{"type": "item_reference", "id": "msg_none"}, message])
    assert raised.value.param == "input[0].id"


# Ids that came twice would lead a client that pages by them around for ever.
def test_paging_always_ends(server):
    named = [{"role": "user", "id": f"msg_{place}", "content": "One"} for place in range(3)]
    response = create(server, named)
    again = create(server, "Two", previous_response_id=response.id)
    for order, limit in (("asc", 1), ("asc", 2), ("desc", 2)):
        pages = server.client.responses.input_items.list(again.id, order=order, limit=limit)
        ids = [item.id for item, _ in zip(pages, range(20))]
        assert len(ids) == len(set(ids)) == 5
    for twice, previous in ((named + named[:1], None), (named[:1], response.id)):
        body = {"input": twice, "previous_response_id": previous}
        status, error = post(server, body)
        assert status == 400 and "duplicate item" in error["message"], error
        assert error["param"] == f"input[{len(twice) - 1}].id"


def test_many_references_to_one_item_are_refused(server):
    first = create(server, "One")
    references = [{"type": "item_reference", "id": first.output[0].id}] * 400
    for store in (True, False):
        status, error = post(server, {"input": references, "store": store})
        assert (status, error["param"]) == (400, "input[1].id"), error


def test_an_assistants_refusal_is_accepted_back(server):
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    message = {"role": "user", "content": "Two"}
    response = create(server, [refusal, message])
    said = create(server, [{"role": "assistant", "content": "No."}, message])
    assert response.output_text == said.output_text
    items = list(server.client.responses.input_items.list(response.id, order="asc"))
    assert items[0].content[0].type == "refusal" and items[0].content[0].refusal == "No."


def test_foreign_thoughts_are_accepted_back(server):
    thoughts = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "s"}],
        "encrypted_content": "opaque",
    }
    history = [
        {"role": "user", "content": "One"},
        thoughts,
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "Two"},
    ]
    with_thoughts = create(server, history)
    history.remove(thoughts)
    assert with_thoughts.output_text == create(server, history).output_text


def test_another_key_sees_nothing(two_tenants):
    alice = copy.copy(two_tenants)
    alice.client = as_key(two_tenants, "alice-secret")
    bob = copy.copy(two_tenants)
    bob.client = as_key(two_tenants, "bob-secret")
    response = create(alice, "A secret")
    assert alice.client.responses.retrieve(response.id).id == response.id
    for ask in (
        bob.client.responses.retrieve,
        bob.client.responses.delete,
        bob.client.responses.input_items.list,
    ):
        with pytest.raises(openai.NotFoundError):
            ask(response.id)
    with pytest.raises(openai.BadRequestError) as raised:
        create(bob, "Tell it", previous_response_id=response.id)
    assert raised.value.code == "previous_response_not_found"
    reference = {"type": "item_reference", "id": response.output[0].id}
    with pytest.raises(openai.BadRequestError):
        create(bob, [reference, {"role": "user", "content": "Tell it"}])
    assert alice.client.responses.retrieve(response.id).id == response.id


def test_logprobs_are_chats(server):
    response = create(
        server,
        "Say hello.",
        include=["message.output_text.logprobs"],
        top_logprobs=3,
        max_output_tokens=5,
    )
    check_strictly(response)
    logprobs = response.output[0].content[0].logprobs
    assert logprobs and all(len(each.top_logprobs) == 3 for each in logprobs)
    chat = server.client.chat.completions.create(
        model="test",
        messages=[{"role": "user", "content": "Say hello."}],
        temperature=0,
        max_tokens=5,
        logprobs=True,
        top_logprobs=3,
    )
    assert [each.logprob for each in logprobs] == [
        each.logprob for each in chat.choices[0].logprobs.content
    ]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": "x", "model": "other"}, "model"),
        ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "x", "max_output_tokens": 10**8}, "max_output_tokens"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, None),
        ({"input": "x", "truncation": "auto"}, "truncation"),
        ({"input": "x", "background": True}, "background"),
        ({"input": "x", "tools": [SEARCH]}, "tools[0].type"),
        ({"input": "x", "tools": [WEATHER, SEARCH], "tool_choice": "required"}, "tools[1].type"),
        ({"input": "x", "tools": [WEATHER, SEARCH], "tool_choice": SEARCH}, "tool_choice.type"),
        ({"input": "x", "tools": [WEATHER, {"type": "mcp"}]}, "tools[1].type"),
        ({"input": "x", "tools": [CALC, CALC]}, "tools[1].tools[0].name"),
        (
            {"input": "x", "tools": [{**CALC, "tools": [{**WEATHER, "parameters": BAD}]}]},
            "tools[0].tools[0].parameters",
        ),
        ({"input": "x", "text": {"format": {"type": "json_schema"}}}, None),
        ({"input": "x", "max_tokens": 5}, "max_tokens"),
        ({"input": words(100_000, seed=3)}, "input"),
        ({"input": "x", "tools": [{**WEATHER, "parameters": BAD}]}, "tools[0].parameters"),
        ({"input": "x", "text": {"format": {**FORMAT, "schema": BAD}}}, "text.format.schema"),
        ({"input": "x", "text": {"format": {**FORMAT, "x": "y" * (1 << 20)}}}, "text"),
    ],
)
def test_errors_name_the_field(server, body, param):
    status, error = post(server, body)
    assert status == (404 if param == "model" else 400), error
    assert set(error) == {"message", "type", "param", "code"}
    assert "max_tokens" not in error["message"] or param == "max_tokens"
    if param:
        assert error["param"] == param, error
    assert create(server, "Hi").output_text
