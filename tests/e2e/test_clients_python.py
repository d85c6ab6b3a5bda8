# The openai package for Python: its own typed calls for every endpoint, its helpers for streams,
# structured output and tools, and its exceptions. What the small models say does not matter; its
# shape does.
import json
import time
from typing import Literal

import openai
import pytest
from openai import OpenAI, pydantic_function_tool
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel, Field
from raw import send_completion
from server import Server

HELLO = [{"role": "user", "content": "Say hello to the world in a few words."}]
SEEDED = {"temperature": 0.8, "seed": 11}


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)
    mood: Literal["glad", "sad"]


class GetWeather(BaseModel):
    """The weather of a city."""

    city: Literal["Paris", "Rome", "Oslo"]


@pytest.fixture(scope="module")
def client(servers):
    return servers.get("smollm2").client


def test_models(client):
    listed = client.models.list().data
    assert [model.id for model in listed] == ["test"] and listed[0].object == "model"
    assert client.models.retrieve("test").id == "test"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-4")
    assert caught.value.code == "model_not_found"


def test_chat(client):
    reply = client.chat.completions.create(
        model="test", messages=HELLO, max_completion_tokens=12, temperature=0
    )
    assert isinstance(reply, ChatCompletion) and reply.id.startswith("chatcmpl-")
    assert reply.choices[0].message.role == "assistant" and reply.choices[0].message.content
    assert reply.choices[0].message.tool_calls is None
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.usage.prompt_tokens_details.cached_tokens >= 0
    assert reply.usage.completion_tokens <= 12 and reply.system_fingerprint


def test_chat_stream(client):
    whole = client.chat.completions.create(model="test", messages=HELLO, max_tokens=16, **SEEDED)
    chunks = list(
        client.chat.completions.create(
            model="test",
            messages=HELLO,
            max_tokens=16,
            stream=True,
            stream_options={"include_usage": True},
            **SEEDED,
        )
    )
    assert all(isinstance(chunk, ChatCompletionChunk) for chunk in chunks)
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_chat_stream_helper(client):
    whole = client.chat.completions.create(model="test", messages=HELLO, max_tokens=16, **SEEDED)
    stop = whole.choices[0].message.content[8:11]  # the helper refuses what ends at the limit
    kinds, texts = set(), []
    with client.chat.completions.stream(
        model="test",
        messages=HELLO,
        max_tokens=16,
        stop=stop,
        logprobs=True,
        top_logprobs=2,
        stream_options={"include_usage": True},
        **SEEDED,
    ) as stream:
        for event in stream:
            kinds.add(event.type)
            if event.type == "content.delta":
                texts.append(event.delta)
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "logprobs.content.delta"} <= kinds
    assert "".join(texts) == final.choices[0].message.content
    assert whole.choices[0].message.content.startswith("".join(texts))
    assert final.usage.completion_tokens == len(final.choices[0].logprobs.content)


def test_choices_logprobs_and_stop(client):
    reply = client.chat.completions.create(
        model="test", messages=HELLO, max_tokens=8, n=3, logprobs=True, top_logprobs=3, **SEEDED
    )
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in reply.choices}) > 1
    for choice in reply.choices:
        for token in choice.logprobs.content:
            assert token.logprob <= 0 and len(token.top_logprobs) == 3
            assert token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob
    again = client.chat.completions.create(
        model="test", messages=HELLO, max_tokens=8, n=3, logprobs=True, top_logprobs=3, **SEEDED
    )
    assert again.choices == reply.choices
    text = reply.choices[0].message.content
    stopped = client.chat.completions.create(
        model="test", messages=HELLO, max_tokens=8, stop=[text[3:6]], **SEEDED
    )
    assert stopped.choices[0].finish_reason == "stop"
    assert text.startswith(stopped.choices[0].message.content)
    assert text[3:6] not in stopped.choices[0].message.content


def test_completions(client):
    prompts = ["One two three", "The capital of France is"]
    reply = client.completions.create(
        model="test", prompt=prompts, max_tokens=6, n=2, echo=True, logprobs=2, **SEEDED
    )
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    for choice in reply.choices:
        assert choice.text.startswith(prompts[choice.index // 2])
        assert "".join(choice.logprobs.tokens) == choice.text
        assert choice.logprobs.token_logprobs[0] is None
    streamed = ["", "", "", ""]
    for chunk in client.completions.create(
        model="test", prompt=prompts, max_tokens=6, n=2, echo=True, stream=True, **SEEDED
    ):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == [choice.text for choice in reply.choices]
    ids = client.completions.create(model="test", prompt=[5, 6, 7], max_tokens=2)
    assert ids.usage.prompt_tokens == 3


def test_structured_output(client):
    reply = client.chat.completions.parse(
        model="test", messages=HELLO, response_format=Person, max_tokens=80, **SEEDED
    )
    choice = reply.choices[0]
    assert choice.finish_reason == "stop" and isinstance(choice.message.parsed, Person)
    with client.chat.completions.stream(
        model="test", messages=HELLO, response_format=Person, max_tokens=80, **SEEDED
    ) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == choice.message.parsed
    json_mode = client.chat.completions.create(
        model="test",
        messages=HELLO,
        response_format={"type": "json_object"},
        max_tokens=60,
        **SEEDED,
    )
    if json_mode.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(json_mode.choices[0].message.content), dict)
    else:
        assert json_mode.choices[0].message.content.lstrip().startswith("{")


def test_tools(client):
    tools = [pydantic_function_tool(GetWeather), pydantic_function_tool(Person)]
    for choice in ("required", {"type": "function", "function": {"name": "GetWeather"}}):
        reply = client.chat.completions.parse(
            model="test",
            messages=HELLO,
            tools=tools,
            tool_choice=choice,
            max_tokens=80,
            parallel_tool_calls=False,
            temperature=0,
        )
        (call,) = reply.choices[0].message.tool_calls
        assert reply.choices[0].finish_reason in ("tool_calls", "stop")
        assert isinstance(call.function.parsed_arguments, GetWeather | Person)
    assert isinstance(call.function.parsed_arguments, GetWeather)
    none = client.chat.completions.create(
        model="test", messages=HELLO, tools=tools, tool_choice="none", max_tokens=8
    )
    assert none.choices[0].message.tool_calls is None


def test_tools_streamed(client):
    tools = [pydantic_function_tool(GetWeather)]
    kinds = []
    with client.chat.completions.stream(
        model="test",
        messages=HELLO,
        tools=tools,
        tool_choice="required",
        max_tokens=80,
        parallel_tool_calls=False,
        temperature=0,
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds
    assert "tool_calls.function.arguments.done" in kinds
    (call,) = final.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, GetWeather)


def test_a_tool_loop_reuses_the_prompt(client):
    tools = [pydantic_function_tool(GetWeather)]
    messages = [{"role": "user", "content": "What is the weather in Paris? " * 20}]
    first = client.chat.completions.create(
        model="test",
        messages=messages,
        tools=tools,
        tool_choice="required",
        max_tokens=80,
        parallel_tool_calls=False,
        temperature=0,
    )
    message = first.choices[0].message
    call = message.tool_calls[0]
    messages += [
        message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": '{"degrees": 18}'},
    ]
    second = client.chat.completions.create(
        model="test",
        messages=messages,
        tools=tools,
        tool_choice="none",
        max_tokens=16,
        temperature=0,
    )
    assert second.choices[0].message.content is not None
    assert second.usage.prompt_tokens > first.usage.prompt_tokens
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 64


def test_responses(client):
    reply = client.responses.create(
        model="test",
        input="Say hello.",
        instructions="Be brief.",
        max_output_tokens=16,
        temperature=0,
    )
    assert reply.status in ("completed", "incomplete") and reply.output_text
    kept = client.responses.retrieve(reply.id)
    assert kept.output_text == reply.output_text
    following = client.responses.create(
        model="test",
        input="And again.",
        previous_response_id=reply.id,
        max_output_tokens=8,
        temperature=0,
    )
    assert following.previous_response_id == reply.id
    assert following.usage.input_tokens > reply.usage.input_tokens
    client.responses.delete(reply.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(reply.id)


def test_responses_stream(client):
    """At the limit the stream ends with response.incomplete, which the helper does not take."""
    ask = {"model": "test", "input": "Say hello.", "temperature": 0}
    events = list(client.responses.create(**ask, max_output_tokens=12, stream=True))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert "response.output_item.added" in kinds and kinds[-1] == "response.incomplete"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert events[-1].response.output_text == text
    assert events[-1].response.incomplete_details.reason == "max_output_tokens"
    whole = client.responses.create(**ask, max_output_tokens=12)
    assert whole.output_text == text and whole.usage == events[-1].response.usage
    with client.responses.stream(**ask, max_output_tokens=80, text_format=Person) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert final.status == "completed" and final.output_text == text
    assert isinstance(final.output_parsed, Person)


def test_responses_parse_and_tools(client):
    reply = client.responses.parse(
        model="test",
        input="Paul is seven.",
        text_format=Person,
        max_output_tokens=80,
        temperature=0,
    )
    assert isinstance(reply.output_parsed, Person)
    tool = openai.pydantic_function_tool(GetWeather)["function"]
    reply = client.responses.create(
        model="test",
        input="The weather in Oslo?",
        max_output_tokens=80,
        temperature=0,
        tools=[{"type": "function", **tool}],
        tool_choice="required",
    )
    calls = [item for item in reply.output if item.type == "function_call"]
    assert calls and GetWeather.model_validate_json(calls[0].arguments)


def test_bad_requests_are_exceptions_with_param_and_code(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="test", messages=HELLO, temperature=-1)
    assert caught.value.param == "temperature" and caught.value.code == "invalid_value"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="test",
            messages=HELLO,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"type": "king"}},
            },
        )
    assert caught.value.param.startswith("response_format")
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="test", prompt="x " * 20_000, max_tokens=1)
    assert caught.value.code == "context_length_exceeded" and "8192" in caught.value.message
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-4", messages=HELLO)
    assert caught.value.code == "model_not_found" and caught.value.param == "model"


def test_keys_and_a_full_queue_are_exceptions(servers):
    server = Server(
        servers.binary(),
        servers.model_path("smollm2"),
        ["--api-key", "secret-key", "--parallel", "1", "--max-queue", "1"],
    )
    try:
        wrong = OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0)
        with pytest.raises(openai.AuthenticationError) as caught:
            wrong.models.list()
        assert caught.value.code == "invalid_api_key"
        right = OpenAI(base_url=server.url + "/v1", api_key="secret-key", max_retries=0)
        assert right.models.list().data
        with right.chat.completions.create(
            model="test",
            messages=HELLO,
            max_tokens=2000,
            stream=True,
            temperature=1.5,
            extra_body={"ignore_eos": True},
        ) as running:
            next(iter(running))
            waiting = send_completion(server, "secret-key", prompt="One two", max_tokens=1)
            time.sleep(0.3)
            with pytest.raises(openai.RateLimitError) as caught:
                right.chat.completions.create(model="test", messages=HELLO, max_tokens=1)
            assert caught.value.code == "queue_full"
            assert int(caught.value.response.headers["retry-after"]) >= 1
            waiting.close()
    finally:
        assert server.stop() == 0
