# One running `reprise serve`, and replies in a form that compares to the byte.
import json
import re
import signal
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field

from openai import OpenAI


@dataclass
class Answer:
    """Everything about a reply that law L9 says must not depend on the cache."""

    text: str = ""
    token_ids: list = field(default_factory=list)
    logprobs: str = ""  # JSON of all log probabilities, with their digits
    finish_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = field(default=0, compare=False)
    prompt_token_ids: list = field(default_factory=list)


class Server:
    def __init__(self, binary, model_path, flags=()):
        self._process = subprocess.Popen(
            [
                binary,
                "serve",
                "-m",
                model_path,
                "--port",
                "0",
                "--alias",
                "test",
                "--prompt-cache-capacity",
                "1GiB",
                "--log-level",
                "warn",
                *flags,
            ],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # whether the tests have a terminal or not
        )
        for line in self._process.stdout:
            found = re.search(r"at http://([\d.]+):(\d+)", line)
            if found:
                self.host, self.port = found.group(1), int(found.group(2))
                break
        else:
            raise RuntimeError(f"the server ended with {self._process.wait()}")
        self.url = f"http://{self.host}:{self.port}"
        self.client = OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=300)

    @property
    def pid(self):
        return self._process.pid

    def is_running(self):
        return self._process.poll() is None

    def stop(self, signal_number=signal.SIGTERM, timeout=30):
        """Asks the process to end; returns its exit code."""
        if self.is_running():
            self._process.send_signal(signal_number)
        try:
            return self._process.wait(timeout)
        finally:
            self._process.kill()
            self._process.stdout.close()

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as reply:
            return json.load(reply)

    def get_text(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as reply:
            return reply.read().decode()

    def stats(self):
        return self.get("/v1/cache/stats")

    def reset_cache(self, query=""):
        request = urllib.request.Request(self.url + "/v1/cache/reset" + query, method="POST")
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))

    def connect(self):
        return socket.create_connection((self.host, self.port), timeout=60)

    def wait_until_idle(self, seconds=10):
        """Waits until nothing runs; returns the stats."""
        deadline = time.monotonic() + seconds
        while True:
            stats = self.stats()
            if stats["running"] == 0 and stats["waiting"] == 0:
                return stats
            assert time.monotonic() < deadline, f"still busy: {stats}"
            time.sleep(0.02)

    def chat(self, messages, stream=False, **options):
        options = {
            "temperature": 0,
            "max_tokens": 24,
            "logprobs": True,
            "top_logprobs": 5,
            **options,
        }
        return self._ask(self.client.chat.completions, stream, {"messages": messages}, options)

    def complete(self, prompt, stream=False, **options):
        options = {"temperature": 0, "max_tokens": 24, "logprobs": 5, **options}
        return self._ask(self.client.completions, stream, {"prompt": prompt}, options)

    @staticmethod
    def _ask(endpoint, stream, subject, options):
        extra = {"return_token_ids": True, **options.pop("extra_body", {})}
        if not stream:
            raw = endpoint.with_raw_response.create(
                model="test", extra_body=extra, **subject, **options
            )
            return _whole_answer(json.loads(raw.text))
        with endpoint.with_streaming_response.create(
            model="test",
            stream=True,
            stream_options={"include_usage": True},
            extra_body=extra,
            **subject,
            **options,
        ) as reply:  # raw lines: the client's models reorder fields
            lines = [
                line[len("data: ") :] for line in reply.iter_lines() if line.startswith("data: ")
            ]
        assert lines.pop() == "[DONE]"
        return _streamed_answer([json.loads(line) for line in lines])


def _add_usage(answer, usage):
    answer.prompt_tokens = usage["prompt_tokens"]
    answer.completion_tokens = usage["completion_tokens"]
    answer.cached_tokens = usage["prompt_tokens_details"]["cached_tokens"]
    assert usage["total_tokens"] == answer.prompt_tokens + answer.completion_tokens


def _merge(parts):
    """Log probabilities of all chunks as one: lists are joined, in order."""
    merged = {}
    for part in parts:
        for name, values in (part or {}).items():
            if values is not None:
                merged.setdefault(name, []).extend(values)
    return json.dumps({name: merged[name] for name in sorted(merged) if merged[name]})


def _whole_answer(reply):
    choice = reply["choices"][0]
    answer = Answer(
        finish_reason=choice["finish_reason"],
        token_ids=choice["token_ids"],
        prompt_token_ids=choice["prompt_token_ids"],
        logprobs=_merge([choice.get("logprobs")]),
    )
    answer.text = choice["message"]["content"] if "message" in choice else choice["text"]
    _add_usage(answer, reply["usage"])
    return answer


def _streamed_answer(chunks):
    answer = Answer()
    logprobs = []
    for chunk in chunks:
        if chunk.get("usage"):
            assert chunk["choices"] == []
            _add_usage(answer, chunk["usage"])
            continue
        choice = chunk["choices"][0]
        piece = choice["delta"].get("content") if "delta" in choice else choice["text"]
        answer.text += piece or ""
        answer.token_ids += choice.get("token_ids") or []
        answer.prompt_token_ids += choice.get("prompt_token_ids") or []
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
        logprobs.append(choice.get("logprobs"))
    answer.logprobs = _merge(logprobs)
    return answer
