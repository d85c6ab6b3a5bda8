"""What a user does in Open WebUI, and which of the requests that follow become fixtures."""
import json

from web_ui import VARIABLES, Chat

MODEL = "test"
TOOL_NAME = "get_current_weather"
CUT_CALL_TOKENS = 28  # the limit falls into the call's arguments
TOOL_SOURCE = '''
class Tools:
    def get_current_weather(self, city: str, unit: str = "celsius") -> str:
        """
        Get the current weather for a given city.
        :param city: The name of the city. (e.g., 'New York, NY')
        :param unit: celsius or fahrenheit.
        """
        return f"18 degrees {unit} and sunny in {city}"

    def calculator(self, equation: str) -> str:
        """
        Calculate the result of an equation.
        :param equation: The equation to calculate.
        """
        return "2"
'''
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
COUNTS = ("input_tokens", "output_tokens", "total_tokens")  # as Open WebUI stores them
SYSTEM = "You are a helpful assistant. The current date is {{CURRENT_DATE}}."
ALL_TASKS = {"title_generation": True, "tags_generation": True, "follow_up_generation": True}
# Advanced parameters as the page holds them: sliders give numbers, text fields give text.
PARAMS = {
    "temperature": 0.8,
    "top_k": 40,
    "top_p": 0.9,
    "min_p": 0.05,
    "max_tokens": 24,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "repeat_penalty": 1.1,
    "repeat_last_n": 64,
    "seed": 42,
    "stop": ["</s>", "USER:"],
    "logit_bias": "100:-10,200:5",
    "reasoning_effort": "low",
    "custom_params": {"min_tokens": "2", "chat_template_kwargs": '{"enable_thinking": false}'},
}
# Those that the page offers for Ollama; it sends them to every server.
OLLAMA_PARAMS = {
    "max_tokens": 24,
    "num_ctx": 2048,
    "num_keep": 24,
    "num_batch": 512,
    "num_thread": 2,
    "num_gpu": 0,
    "use_mmap": True,
    "use_mlock": False,
    "keep_alive": "5m",
    "mirostat": 0,
    "mirostat_eta": 0.1,
    "mirostat_tau": 5.0,
    "tfs_z": 1,
}


def chunk(delta, finish_reason=None):
    return {
        "id": "chatcmpl-canned",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def call_start(index, name):
    function = {"name": name, "arguments": ""}
    return {"index": index, "id": f"call_{index}", "type": "function", "function": function}


# A model that thinks, as reprise streams it: SmolLM2 does not.
THOUGHTFUL_REPLY = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Seven minutes is usual."}),
    chunk({"content": "Boil it for seven minutes."}),
    chunk({}, "stop"),
]
THOUGHTFUL_CALLS = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "The user wants the weather."}),
    chunk({"tool_calls": [call_start(0, TOOL_NAME)]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Paris"}'}}]}),
    chunk({"tool_calls": [call_start(1, "calculator")]}),
    chunk({"tool_calls": [{"index": 1, "function": {"arguments": '{"equation": "1+1"}'}}]}),
    chunk({}, "tool_calls"),
]
# A reply of the Responses API that the connection's end broke off before its first word.
BROKEN_REPLY = [
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "message", "id": "msg_canned", "role": "assistant", "content": []},
    }
]


def first_text(exchange):
    content = exchange.body["messages"][0]["content"]
    return content if isinstance(content, str) else ""


def is_task(exchange):
    return "messages" in exchange.body and first_text(exchange).startswith("### Task:")


def chats_of(exchanges):
    """The requests for replies to the user, in order."""
    return [e for e in exchanges if e.method == "POST" and not is_task(e)]


def task_about(exchanges, words):
    found = [e for e in exchanges if e.method == "POST" and words in json.dumps(e.body)[:300]]
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} requests about {words!r}")
    return found[0]


def call_tool_first(body, reply_tokens=200):
    """Forces the call of TOOL_NAME where the conversation ends with the user's words."""
    last = (body.get("messages") or body.get("input"))[-1]
    if not body.get("tools") or last.get("role") != "user":
        return body
    name = {"name": TOOL_NAME}
    choice = {"function": name} if "messages" in body else name
    limit = "max_tokens" if "messages" in body else "max_output_tokens"
    return {**body, "tool_choice": {"type": "function", **choice}, limit: reply_tokens}


class Scenarios:
    """Each method plays one part and keeps what arrived; record.py runs them in their order."""

    def __init__(self, web_ui, proxy, fixtures, upstream_url):
        self._web_ui = web_ui
        self._proxy = proxy
        self._fixtures = fixtures
        self._upstream_url = upstream_url

    def run(self):
        self.connections()
        self.default_model()
        self._set_model()
        self.plain_chat()
        self.parameters()
        self.tool_calls()
        self.tasks()
        self.image()
        self.api_client()
        self.llama_cpp_connection()
        self.responses_connection()

    def connections(self):
        self._web_ui.models()
        self._fixtures.keep("models", self._exchanges()[-1])
        config = {"auth_type": "bearer", "api_version": "", "passthrough_params": []}
        verified = self._web_ui.post(
            "/openai/verify", {"url": self._upstream_url, "key": "sk-recorded", "config": config}
        )
        if [model["id"] for model in verified["data"]] != [MODEL]:
            raise RuntimeError(f"the connection's models are {verified}")
        self._fixtures.keep("verify", self._exchanges()[-1])

    def default_model(self):
        """A new chat with nothing set: tools of its own, and all three background tasks."""
        chat = Chat(self._web_ui, MODEL)
        reply = chat.say("How do I boil an egg?", background_tasks=dict(ALL_TASKS))
        exchanges = self._exchanges()
        self._keep_read("chat_default", chats_of(exchanges)[0], reply)
        self._fixtures.keep("title", task_about(exchanges, "concise title"))
        self._fixtures.keep("tags", task_about(exchanges, "broad tags"))
        self._fixtures.keep("follow_ups", task_about(exchanges, "messages this user might"))

    def plain_chat(self):
        chat = Chat(self._web_ui, MODEL, system=SYSTEM)
        reply = chat.say("How do I boil an egg?")
        self._keep_read("chat_stream", chats_of(self._exchanges())[0], reply)
        reply = chat.say("And two?")
        self._keep_read("chat_turn_2", chats_of(self._exchanges())[0], reply)
        chat.continue_reply()
        self._fixtures.keep("chat_continue", chats_of(self._exchanges())[0])

    def parameters(self):
        for name, params in {
            "chat_params": PARAMS,
            "chat_ollama_params": OLLAMA_PARAMS,
            "chat_whole": {"stream_response": False, "max_tokens": 24},
            "chat_json": {"custom_params": {"response_format": '{"type": "json_object"}'}},
        }.items():
            reply = Chat(self._web_ui, MODEL, SYSTEM, params).say("How do I boil an egg?")
            self._keep_read(name, chats_of(self._exchanges())[0], reply)

    def tool_calls(self):
        """Native calling, then the prompt of old ("legacy"), with a tool of the workspace."""
        self._web_ui.post(
            "/api/v1/tools/create",
            {"id": "weather", "name": "Weather", "content": TOOL_SOURCE, "meta": {}},
        )
        self._tool_conversation("tools", Chat(self._web_ui, MODEL, SYSTEM, tool_ids=["weather"]))
        chat = Chat(self._web_ui, MODEL, SYSTEM, tool_ids=["weather"])
        self._proxy.steer = lambda body: call_tool_first(body, CUT_CALL_TOKENS)
        chat.say("What is the weather in Paris?")
        self._proxy.steer = None
        self._fixtures.keep("tools_cut_call", chats_of(self._exchanges())[1])
        chat = Chat(self._web_ui, MODEL, SYSTEM, {"function_calling": "legacy"}, ["weather"])
        reply = chat.say("What is the weather in Paris?")
        prompt, answer = chats_of(self._exchanges())[:2]
        self._fixtures.keep("function_calling_prompt", prompt)
        self._keep_read("function_calling_answer", answer, reply)

    def _tool_conversation(self, name, chat):
        self._proxy.steer = call_tool_first
        reply = chat.say("What is the weather in Paris?")
        self._proxy.steer = None
        call, *results = chats_of(self._exchanges())
        self._fixtures.keep(f"{name}_stream", call)
        self._check_call(call, reply)
        self._fixtures.keep(f"{name}_result", results[0])
        reply = chat.say("And in Rome?")
        self._keep_read(f"{name}_turn_2", chats_of(self._exchanges())[0], reply)

    def tasks(self):
        """Tasks that the page asks for by themselves, and the title with a form for its reply."""
        history = [
            {"role": "user", "content": "How do I boil an egg?"},
            {"role": "assistant", "content": "Boil it for seven minutes."},
        ]
        about = {"model": MODEL, "messages": history}
        prompt = "Should I salt the"
        config = self._web_ui.get("/api/v1/tasks/config")
        config["ENABLE_AUTOCOMPLETE_GENERATION"] = True
        self._web_ui.post("/api/v1/tasks/config/update", config)
        self._task("queries", {**about, "prompt": prompt, "type": "web_search"})
        self._task("auto", {**about, "prompt": prompt, "type": "search query"})
        self._task("emoji", {"model": MODEL, "prompt": "An egg!"})
        form = {"max_tokens": 100, "custom_params": {"response_format": '{"type": "json_object"}'}}
        self._web_ui.post("/api/v1/tasks/config/update", {**config, "TASK_MODEL_PARAMS": form})
        self._task("title", about, "title_json")
        self._web_ui.post("/api/v1/tasks/config/update", {**config, "TASK_MODEL_PARAMS": {}})

    def image(self):
        chat = Chat(self._web_ui, MODEL, SYSTEM)
        reply = chat.say("What is this?", files=[{"type": "image", "url": PIXEL}])
        self._keep_refused("image", "messages[1].content[1].type", reply)

    def api_client(self):
        """A program that uses Open WebUI as its server: what it sends goes through."""
        function = {"name": "add", "parameters": {"type": "object", "properties": {}}}
        self._web_ui.post(
            "/api/chat/completions",
            {
                "model": MODEL,
                "messages": [{"role": "user", "content": "Add one and one."}],
                "tools": [{"type": "function", "function": function}],
                "tool_choice": "required",
                "max_completion_tokens": 24,
                "variables": VARIABLES,
            },
        )
        self._fixtures.keep("api_client", self._exchanges()[-1])

    def llama_cpp_connection(self):
        """As a server of the kind llama.cpp: thoughts go back, Continue says what it means."""
        self._web_ui.set_connection(self._upstream_url, provider="llama.cpp")
        chat = Chat(self._web_ui, MODEL, SYSTEM)
        reply = self._canned(THOUGHTFUL_REPLY, chat)
        if reply["content"].strip() != "Boil it for seven minutes.":
            raise RuntimeError(f"a thought was read as {reply}")
        reply = chat.say("And two?")
        self._keep_read("llama_cpp_thoughts", chats_of(self._exchanges())[0], reply)
        chat.continue_reply()
        self._fixtures.keep("llama_cpp_continue", chats_of(self._exchanges())[0])
        chat = Chat(self._web_ui, MODEL, SYSTEM, tool_ids=["weather"])
        self._proxy.canned = THOUGHTFUL_CALLS
        reply = chat.say("What is the weather in Paris?")
        self._keep_read("llama_cpp_tools_result", chats_of(self._exchanges())[1], reply)

    def responses_connection(self):
        self._web_ui.set_connection(self._upstream_url, api_type="responses")
        chat = Chat(self._web_ui, MODEL, SYSTEM)
        reply = chat.say("How do I boil an egg?", background_tasks={"title_generation": True})
        exchanges = self._exchanges()
        title = task_about(exchanges, "concise title")
        self._fixtures.keep("responses_title", title)
        stream = next(e for e in exchanges if e.method == "POST" and e is not title)
        self._keep_read("responses_stream", stream, reply)
        reply = chat.say("And two?")
        self._keep_read("responses_turn_2", chats_of(self._exchanges())[0], reply)
        params = {name: value for name, value in PARAMS.items() if name != "reasoning_effort"}
        reply = Chat(self._web_ui, MODEL, SYSTEM, params).say("How do I boil an egg?")
        self._keep_read("responses_params", chats_of(self._exchanges())[0], reply)
        reply = Chat(self._web_ui, MODEL, SYSTEM, PARAMS).say("How do I boil an egg?")
        self._keep_refused("responses_effort", "reasoning_effort", reply)
        chat = Chat(self._web_ui, MODEL, SYSTEM, tool_ids=["weather"])
        self._tool_conversation("responses_tools", chat)
        chat = Chat(self._web_ui, MODEL, SYSTEM)
        self._canned(BROKEN_REPLY, chat)
        reply = chat.say("Are you there?")
        self._keep_read("responses_after_broken", chats_of(self._exchanges())[0], reply)
        reply = Chat(self._web_ui, MODEL).say("Hello?", files=[{"type": "image", "url": PIXEL}])
        self._keep_refused("responses_image", "input[0].content[1].type", reply)

    def _set_model(self):
        """A model entry as the admin's settings make it: counts asked for, no tools of its own."""
        self._web_ui.post(
            "/api/v1/models/create",
            {
                "id": MODEL,
                "base_model_id": None,
                "name": MODEL,
                "meta": {"capabilities": {"builtin_tools": False, "usage": True, "vision": True}},
                "params": {},
            },
        )
        self._web_ui.models()
        self._exchanges()

    def _task(self, task, body, name=None):
        self._web_ui.post(f"/api/v1/tasks/{task}/completions", body)
        self._fixtures.keep(name or task, self._exchanges()[-1])

    def _canned(self, events, chat):
        """Has the proxy answer the first message of a chat."""
        self._proxy.canned = events
        reply = chat.say("How do I boil an egg?")
        self._exchanges()
        return reply

    def _exchanges(self):
        """What arrived since the last call, once nothing more comes."""
        while not self._proxy.is_quiet(1.0):
            pass
        return self._proxy.take()

    def _keep_read(self, name, exchange, reply):
        """Keeps a request whose reply Open WebUI must have read as it was sent."""
        self._fixtures.keep(name, exchange)
        text = exchange.text()
        if reply.get("error") or reply["content"].strip() != text.strip():
            raise RuntimeError(f"{name}: {text!r} was read as {reply}")
        usage, read = exchange.usage(), reply.get("usage")
        if usage and (not read or any(read.get(key) != usage[key] for key in COUNTS)):
            raise RuntimeError(f"{name}: {usage} was read as {read}")

    def _keep_refused(self, name, param, reply):
        """Keeps a request that is refused by name; the user must see the words."""
        exchange = chats_of(self._exchanges())[0]
        self._fixtures.keep(name, exchange, refused=param)
        message = json.loads(exchange.reply)["error"]["message"]
        if message not in str(reply.get("error")):
            raise RuntimeError(f"{name}: {message!r} was shown as {reply}")

    @staticmethod
    def _check_call(exchange, reply):
        """The model's call must have been read, and the tool run."""
        kinds = [item["type"] for item in reply.get("output", [])]
        if kinds[:2] != ["function_call", "function_call_output"]:
            raise RuntimeError(f"a call was read as {reply}, from {exchange.reply!r}")
