# Servers side by side: eight sequences at once on ours and on llama.cpp's, and llama.cpp's flags.
import concurrent.futures
import contextlib
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from versus_parts import machine

ROOT = Path(__file__).resolve().parent.parent.parent
EIGHT_TOKENS = 96  # of each sequence
EIGHT_CONTEXT = 4096  # llama.cpp's server shares it out: 512 a sequence


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def template_flags(model_path, folder):
    """For files without a chat template: ours, so that both servers read the same prompts."""
    with open(model_path, "rb") as model:
        head = model.read(64 << 20)
    if b"tokenizer.chat_template" in head:
        return ()
    key = b"general.architecture"
    at = head.index(key) + len(key) + 4  # the name is followed by its type, its length and its text
    size = int.from_bytes(head[at:at + 8], "little")
    family = head[at + 8:at + 8 + size].decode()
    source = (ROOT / "src" / "text" / "builtin_templates.cpp").read_text(encoding="utf-8")
    templates = dict(re.findall(r'k(\w+)Template = R"\((.*?)\)";', source, re.DOTALL))
    found = [text for name, text in templates.items() if name.lower() == family]
    if not found:
        return ()
    path = folder / f"{family}.jinja"
    path.write_text(found[0], encoding="utf-8")
    return ("--chat-template-file", str(path))


@contextlib.contextmanager
def running(command, port, log, environment):
    """A server that answers /health: (url, process). Ends it whatever happens."""
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=output,
                                   env={**os.environ, **environment})
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 300
            while True:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{command[0]} did not start; see {log}")
                with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                    with urllib.request.urlopen(url + "/health", timeout=5) as reply:
                        if reply.status == 200:
                            break
                time.sleep(0.2)
            yield url, process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def llama_server(server, model, threads, flags, log, environment):
    port = free_port()
    command = [server, "-m", model, "--host", "127.0.0.1", "--port", port, "-t", threads, *flags,
               *template_flags(model, log.parent)]
    with running(command, port, log, environment) as started:
        yield started


@contextlib.contextmanager
def our_server(options, model, isa, log):
    port = free_port()
    command = [options.reprise, "serve", "-m", model, "--host", "127.0.0.1", "--port", port,
               "--threads", options.threads, "--parallel", 8, "--log-level", "warn"]
    speculation = re.search(r"--specul[\w-]*", machine.run([options.reprise, "serve", "--help"]))
    if speculation:
        command += [speculation.group(), "off"]  # decoding is compared, not guessing
    forced = {} if isa == "native" else {"REPRISE_FORCE_ISA": isa}
    with running(command, port, log, forced) as started:
        yield started


def complete(url, prompt, tokens):
    """Generated tokens of one greedy completion."""
    body = json.dumps({"prompt": prompt, "max_tokens": tokens, "temperature": 0}).encode()
    request = urllib.request.Request(url + "/v1/completions", body,
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)["usage"]["completion_tokens"]


class EndedEarly(Exception):
    """A sequence that generated too little: fewer than eight ran for a part of the time."""


def eight_sample(url, number, sequences):
    """`sequences` greedy completions that run at once, prompts included.

    (tokens a second, tokens of each). The prompts are short and new for each number; both servers
    get the same ones.
    """
    prompts = [f"Letter {number}.{index} from the harbour, in which the old keeper tells of"
               for index in range(sequences)]
    with concurrent.futures.ThreadPoolExecutor(sequences) as pool:
        begin = time.monotonic()
        counts = list(pool.map(lambda prompt: complete(url, prompt, EIGHT_TOKENS), prompts))
        seconds = time.monotonic() - begin
    return sum(counts) / seconds, counts


class EightAtOnce:
    """Both servers, kept running between samples: an idle one costs the other nothing."""

    def __init__(self, options, server, row, model, folder, waiting):
        self.count = row.count
        self.stack = contextlib.ExitStack()
        flags = ("-np", str(row.count), "-c", str(EIGHT_CONTEXT), "-fa", "on",
                 "-cram", "0", "--no-ui")
        self.urls = {
            "ours": self.stack.enter_context(
                our_server(options, model, row.isa, folder / "eight-ours.log"))[0],
            "llama.cpp": self.stack.enter_context(
                llama_server(server, model, options.threads, flags, folder / "eight-llama.log",
                             waiting))[0]}
        self.counts = {name: {} for name in self.urls}  # tokens of each sequence, by number
        for name in self.urls:  # warm-up
            eight_sample(self.urls[name], "0", row.count)

    def rate(self, name, number):
        """Raises EndedEarly where a sequence is short by more than a tenth."""
        rate, counts = eight_sample(self.urls[name], number, self.count)
        self.counts[name][number] = counts
        if min(counts) < 0.9 * EIGHT_TOKENS:
            raise EndedEarly(f"{name} ended a sequence after {min(counts)} of {EIGHT_TOKENS} "
                             "tokens")
        return rate

    def close(self):
        self.stack.close()
