# Requests that are wrong, each with the status, code and parameter of its refusal.
import json

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
    TEMPLATE: "ChatCompletionRequest",
}

MISSING = "missing_required_parameter"
TYPE = "invalid_type"
VALUE = "invalid_value"
UNSUPPORTED = "unsupported_parameter"
JSON = "invalid_json"

NESTED = 100_000


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
    yield from field_cases([CHAT], "max_tokens", VALUE, 0, -2, 1e300)
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
    yield from field_cases([COMPLETIONS], "max_tokens", VALUE, 0, -2)
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


def texts_and_tokens():
    """Like a chat, where the prompt is one; and what belongs to texts or to messages only."""
    messages = {"content": None, "messages": [USER]}
    both = ("add_generation_prompt", "continue_final_message")
    for field in both:
        yield from field_cases([TEMPLATE, CHAT], field, TYPE, 0, "yes", [True], {})
        yield from field_cases([TOKENIZE], field, VALUE, False)
        yield from body_cases(TOKENIZE, ({**messages, field: 1}, TYPE, field))
    for path in (TEMPLATE, CHAT):
        yield from body_cases(path, *continued())
    for path in (COMPLETIONS, LLAMA, RESPONSES):
        yield from field_cases([path], both[0], UNSUPPORTED, False)
        yield from field_cases([path], both[1], UNSUPPORTED, True)
    yield from field_cases([TEMPLATE, CHAT, TOKENIZE], "chat_template", UNSUPPORTED, "x")
    yield from field_cases([TEMPLATE], "temperature", TYPE, "hot")
    yield from field_cases([TEMPLATE], "reasoning_effort", VALUE, "most")
    yield from field_cases([TOKENIZE], "tools", VALUE, [])
    yield from field_cases([TOKENIZE], "reasoning_effort", VALUE, "low")
    yield from field_cases([TOKENIZE], "return_token_strs", UNSUPPORTED, True)
    yield from body_cases(
        TOKENIZE,
        ({**messages, "tools": "all"}, TYPE, "tools"),
        ({**messages, "add_special": True}, VALUE, "add_special"),
        ({**messages, "parse_special": False}, VALUE, "parse_special"),
        ({"messages": [USER]}, VALUE, "messages"),
    )


def continued():
    """Of chats that are to go on with their last message."""
    field = "continue_final_message"

    def last(message, **members):
        return {field: True, "messages": [USER, message], **members}

    begun = {"role": "assistant", "content": "Once"}
    both = {"add_generation_prompt": True}
    tool = {"tools": [TOOL], "tool_choice": "required"}
    return [
        ({field: True}, VALUE, field),
        (last({**begun, "content": " \n"}), VALUE, field),
        (last({"role": "assistant", "content": None, "tool_calls": [CALL]}), VALUE, field),
        (last(begun, **both), VALUE, "add_generation_prompt"),
        (last(begun, **tool), VALUE, "tool_choice"),
        (last(begun, response_format={"type": "json_object"}), VALUE, "response_format"),
    ]


def other_servers():
    """Fields of other servers that would change the answer, and that we do not have."""
    for field, value in (
        ("verbosity", "high"),
        ("top_n_sigma", 1.5),
        ("min_keep", 3),
        ("t_max_predict_ms", 500),
        ("reasoning_format", "none"),
        ("n_indent", 4),
        ("parse_tool_calls", False),
        ("regex", "a+"),
        ("ebnf", "root ::= x"),
        ("structural_tag", {"type": "structural_tag"}),
        ("logits_processors", ["x"]),
        ("prompt_embeds", "x"),
        ("return_tokens_as_token_ids", True),
        ("logprob_token_ids", [1]),
        ("include_reasoning", False),
        ("separate_reasoning", False),
        ("enable_thinking", False),
        ("thinking_budget_tokens", 64),
        ("smoothing_factor", 0.3),
        ("sampler_order", [6, 0, 1]),
        ("temperature_last", True),
        ("moderation", {"model": "m"}),
        ("thinking", {"type": "disabled"}),
        ("think", False),
        ("thinking_budget", 64),
        ("reasoning_budget", 0),
        ("stop_sequences", ["a"]),
        ("stop_strings", ["a"]),
        ("max_new_tokens", 5),
        ("num_predict", 5),
        ("format", "json"),
        ("response_schema", {"type": "object"}),
        ("options", {"num_ctx": 1024}),
        ("mirostat_mode", 2),
        ("adaptive_target", 0.5),
        ("typ_p", 0.5),
        ("nsigma", 1.5),
        ("penalty_alpha", 0.6),
    ):
        yield from field_cases([*GENERATING, RESPONSES], field, UNSUPPORTED, value)
    yield from field_cases([CHAT, COMPLETIONS], "n_probs", UNSUPPORTED, 2)
    yield from field_cases([COMPLETIONS, LLAMA], "reasoning", UNSUPPORTED, {"effort": "low"})
    yield from field_cases([CHAT], "reasoning", TYPE, "low")
    yield from body_cases(
        CHAT,
        ({"reasoning": {"effort": "most"}}, VALUE, "reasoning.effort"),
        ({"reasoning": {"max_tokens": 5}}, UNSUPPORTED, "reasoning.max_tokens"),
        ({"messages": [{**USER, "prefix": True}]}, VALUE, "messages[0].prefix"),
    )
    yield from field_cases([CHAT], "add_special_tokens", UNSUPPORTED, True)
    yield from field_cases([COMPLETIONS, LLAMA], "add_special_tokens", UNSUPPORTED, False)


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
    for path in BASES:
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
        texts_and_tokens,
        other_servers,
        responses,
        whole_bodies,
    ):
        yield from rows()


CASES = list(all_cases())


def name_of(case):
    path, body, _, code, param = case
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"{path}-{param}-{code}-{text[:60].decode('ascii', 'backslashreplace')}"
