# Random conversations over HTTP, on a server that must evict and preempt: every answer equals the
# same request on a server without the prompt cache. REPRISE_FUZZ_SEEDS=20 runs longer.
import json
import os
import random
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from texts import SYSTEM, WORDS, words

SEEDS = range(1, 1 + int(os.environ.get("REPRISE_FUZZ_SEEDS", "1")))
ROUNDS = 9  # of one seed, each of one to four requests at once
AT_ONCE_MAX = 4
SYSTEMS = [SYSTEM, words(40, seed=900), None]
# Model, budget, prompt tokens at which a conversation ends, flags. The budget has room for not much
# more than one of the longest prompts: some requests at once must preempt each other.
SETTINGS = [
    pytest.param("smollm2", "20M", 400, (), id="smollm2"),
    pytest.param("gemma3", "14M", 600, (), id="gemma3"),
    pytest.param("gemma3", "20M", 900, ("--cache-store", "materialised"), id="gemma3-materialised"),
]


@dataclass
class Ask:
    """One request, and what happened to it."""

    subject: object  # a list of messages, or a list of token ids
    options: dict
    stream: bool = False
    leaves_after: int = -1  # bytes of the reply, when the client leaves early
    resets: bool = False  # ... with a reset instead of an orderly end

    @property
    def is_chat(self):
        return isinstance(self.subject[0], dict)

    def send(self, server, **changes):
        ask = server.chat if self.is_chat else server.complete
        options = json.loads(json.dumps(self.options))
        if changes:
            options["extra_body"] = {**options.get("extra_body", {}), **changes}
        return ask(self.subject, stream=self.stream, **options)

    def send_and_leave(self, server):
        options = {k: v for k, v in self.options.items() if k != "extra_body"}
        subject = {"messages" if self.is_chat else "prompt": self.subject}
        body = json.dumps(
            {**subject, **options, **self.options.get("extra_body", {}), "stream": True}
        ).encode()
        path = b"/v1/chat/completions" if self.is_chat else b"/v1/completions"
        with server.connect() as connection:
            connection.sendall(
                b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (path, len(body), body)
            )
            received = 0
            while received < self.leaves_after:
                piece = connection.recv(4096)
                if not piece:
                    break
                received += len(piece)
            if self.resets:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


@dataclass
class Fuzzer:
    """Grows conversations in all directions; draws depend on nothing but the seed and answers."""

    draw: random.Random
    tokens_max: int
    histories: list = field(default_factory=list)  # [(subject, answer)], of finished requests

    def user(self, count=None):
        count = count or self.draw.choice([1, 20, 60, 150, 250])
        return {"role": "user", "content": words(count, seed=self.draw.randrange(10**6))}

    def new_chat(self):
        system = self.draw.choice(SYSTEMS)
        return ([{"role": "system", "content": system}] if system else []) + [self.user()]

    def continued(self, subject, answer):
        if isinstance(subject[0], int):
            return subject + answer.token_ids + self.some_ids(subject)
        return subject + [{"role": "assistant", "content": answer.text}, self.user()]

    def some_ids(self, known):
        begin = self.draw.randrange(len(known))
        return known[begin : begin + self.draw.choice([1, 3, 17, 64, 130])]

    def edited(self, subject):
        """One message or id changed; what follows it stays, or is cut off."""
        at = self.draw.randrange(len(subject))
        if isinstance(subject[0], int):
            changed = subject[:at] + [self.draw.randrange(5, 40_000)]
            return changed + (subject[at + 1 :] if self.draw.random() < 0.5 else [])
        message = dict(subject[at])
        pieces = message["content"].split(" ")
        pieces[self.draw.randrange(len(pieces))] = self.draw.choice(WORDS)
        message["content"] = " ".join(pieces)
        whole = self.draw.random() < 0.5 or message["role"] != "user"
        return subject[:at] + [message] + (subject[at + 1 :] if whole else [])

    def as_ids(self, answer):
        """A reply and its prompt as ids, cut at any place: every phase of a block and a page."""
        ids = answer.prompt_token_ids + answer.token_ids
        return ids[: self.draw.randint(1, len(ids))]

    def subject(self):
        if not self.histories or self.draw.random() < 0.1:
            return self.new_chat()
        recent = self.draw.random() < 0.6  # else a branch from any earlier one
        subject, answer = self.histories[-1] if recent else self.draw.choice(self.histories)
        if answer.prompt_tokens > self.tokens_max:
            return self.new_chat()
        action = self.draw.choices(["continue", "edit", "regenerate", "ids"], [5, 3, 2, 2])[0]
        if action == "continue":
            return self.continued(subject, answer)
        if action == "edit":
            return self.edited(subject)
        return self.as_ids(answer) if action == "ids" else subject

    def options(self, is_chat):
        options = {"max_tokens": self.draw.choice([1, 2, 7, 16, 24])}
        if self.draw.random() < 0.4:
            options |= {"temperature": self.draw.choice([0.7, 1.3])}
            options |= {"seed": self.draw.randrange(2**40)}
            options |= {"top_p": self.draw.choice([1, 0.9])}
        if self.draw.random() < 0.3:
            options["stop"] = self.stops()
        if not is_chat:
            options["logprobs"] = self.draw.choice([0, 5])
        if self.draw.random() < 0.15:
            salt = self.draw.choice(["", "one"])
            options["extra_body"] = {"cache_salt": salt, "top_k": self.draw.choice([0, 40])}
        return options

    def stops(self):
        """A piece of an earlier reply, so that it may be met, and one that never is."""
        texts = [answer.text for _, answer in self.histories if len(answer.text) > 6]
        stops = ["\x01never"]
        if texts:
            text = self.draw.choice(texts)
            begin = self.draw.randrange(len(text) - 3)
            stops.append(text[begin : begin + self.draw.randint(1, 6)])
        return stops

    def ask(self):
        subject = self.subject()
        ask = Ask(subject, self.options(isinstance(subject[0], dict)))
        ask.stream = self.draw.random() < 0.5
        if self.draw.random() < 0.15:
            ask.leaves_after = self.draw.choice([0, 1, 600, 3000])
            ask.resets = self.draw.random() < 0.5
        return ask

    def round(self, warm, cold, pool):
        asks = [self.ask() for _ in range(self.draw.choice([1, 2, AT_ONCE_MAX, AT_ONCE_MAX]))]
        if self.draw.random() < 0.2:
            asks[-1] = Ask(asks[0].subject, asks[0].options)  # the same at the same time
        staying = [ask for ask in asks if ask.leaves_after < 0]
        leaving = [ask for ask in asks if ask.leaves_after >= 0]
        answers = [pool.submit(ask.send, warm) for ask in staying]
        gone = [pool.submit(ask.send_and_leave, warm) for ask in leaving]
        answers = [answer.result() for answer in answers]
        for each in gone:
            each.result()
        expected = list(pool.map(lambda ask: ask.send(cold), staying))
        for ask, answer, wanted in zip(staying, answers, expected):
            assert answer == wanted, ask
            self.histories.append((ask.subject, answer))


def counter(server, name):
    """The sum of a counter's series in /metrics."""
    lines = server.get_text("/metrics").splitlines()
    found = [line for line in lines if line.startswith((name + " ", name + "{"))]
    assert found, name
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


@pytest.mark.parametrize("model,budget,tokens_max,flags", SETTINGS)
def test_random_conversations_equal_cold_ones(servers, model, budget, tokens_max, flags):
    warm = servers.get(model, "--prompt-cache-capacity", budget, *flags)
    cold = servers.get(model, "--prompt-cache=off")
    with ThreadPoolExecutor(AT_ONCE_MAX) as pool:
        for seed in SEEDS:
            fuzzer = Fuzzer(random.Random(seed), tokens_max)
            for number in range(ROUNDS):
                try:
                    fuzzer.round(warm, cold, pool)
                except AssertionError as error:
                    error.add_note(f"seed {seed}, round {number}")
                    raise
                stats = warm.wait_until_idle()
                assert stats["sequence_bytes"] == 0
                assert stats["used_bytes"] == stats["cache_bytes_all"]
                assert stats["used_bytes"] <= stats["capacity_bytes"]
    hits = counter(warm, "reprise_cache_hits_total")
    assert hits >= 6 * len(SEEDS)
    assert counter(warm, "reprise_cache_tokens_reused_total") >= 100 * hits
    assert counter(warm, "reprise_cache_evictions_total") > 0
    print(hits, "hits,", counter(warm, "reprise_preemptions_total"), "preemptions")
