#!/usr/bin/env python3
"""Runs the request's validation on one model; see validate_seed.sh. Standard library only."""

import json
import re
import subprocess
import sys
import time
import urllib.request

WORDS = "lamp boat harbour winter clock keeper stone light storm letter bread rope".split()


class Server:
    def __init__(self, program, model, *flags):
        self.process = subprocess.Popen(
            [program, "serve", "-m", model, "--port", "0", "--log-level", "warn", *flags],
            stdout=subprocess.PIPE,
            text=True,
        )
        for line in self.process.stdout:
            found = re.search(r"at (http://[\d.:]+)", line)
            if found:
                self.url = found.group(1)
                return
        sys.exit(f"the server ended with {self.process.wait()}")

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=3600) as reply:
            return json.load(reply)

    def complete(self, prompt, max_tokens):
        start = time.monotonic()
        reply = self.ask(
            "/v1/completions",
            {
                "prompt": prompt,
                "max_tokens": max_tokens,
                "temperature": 0,
                "logprobs": 3,
                "return_token_ids": True,
            },
        )
        return reply, time.monotonic() - start

    def stop(self):
        self.process.terminate()
        self.process.wait()


def largest_window(program, model):
    told = subprocess.run([program, "inspect", model], capture_output=True, text=True, check=True)
    sizes = [int(size) for size in re.findall(r"(?:window|chunk) (\d+):", told.stdout)]
    return max(sizes, default=0)


class Validation:
    def __init__(self, program, model):
        self.warm = Server(program, model)
        self.cold = Server(program, model, "--prompt-cache=off")
        self.failures = 0

    def check(self, name, passed, detail=""):
        print(f"{'pass' if passed else 'FAIL'}  {name}{'  ' + detail if detail else ''}")
        self.failures += 0 if passed else 1

    def turn(self, name, prompt, max_tokens=24):
        """Asks both servers; returns the warm choice and how many tokens were cached."""
        reply, seconds = self.warm.complete(prompt, max_tokens)
        other, cold_seconds = self.cold.complete(prompt, max_tokens)
        choice, expected = reply["choices"][0], other["choices"][0]
        same = all(choice[key] == expected[key] for key in ("text", "token_ids", "logprobs"))
        self.check(f"{name}: byte-identical to --prompt-cache off", same)
        cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
        print(
            f"      {reply['usage']['prompt_tokens']} prompt tokens, {cached} cached, "
            f"{seconds:.2f} s against {cold_seconds:.2f} s cold"
        )
        return choice, cached

    def run(self, window):
        text = " ".join(WORDS[i * i % len(WORDS)] for i in range(60))
        first, cached = self.turn("turn 1", text)
        self.check("turn 1: nothing cached", cached == 0)
        history = first["prompt_token_ids"] + first["token_ids"]
        forwarded = len(history) - (1 if first["finish_reason"] == "length" else 0)
        more = first["prompt_token_ids"][1:9]
        before = self.warm.ask("/v1/cache/stats")
        second, cached = self.turn("turn 2", history + more)
        after = self.warm.ask("/v1/cache/stats")
        self.check("turn 2: one snapshot hit", after["hits"] == before["hits"] + 1)
        matched = after["last_hit"]["matched_len"]
        self.check(
            "turn 2: matched_len is all that was forwarded",
            cached == matched == forwarded,
            f"{cached} of {forwarded}",
        )
        long_prompt = history + more + second["token_ids"]
        while len(long_prompt) <= window + 64:
            long_prompt = long_prompt + first["prompt_token_ids"][1:]
        self.turn("past the window", long_prompt)
        _, cached = self.turn("turn 3, past the window", long_prompt + more)
        self.check("turn 3: hits", cached >= len(long_prompt) - 1, f"{cached}")
        shorter = first["prompt_token_ids"][: len(first["prompt_token_ids"]) // 2] + more[::-1]
        self.turn("shorter divergent prompt", shorter)
        stats = self.warm.ask("/v1/cache/stats")
        print("      rejects:", {k: v for k, v in stats.items() if k.startswith("reject_") and v})
        self.warm.stop()
        self.cold.stop()
        return self.failures


def main():
    model, program = sys.argv[1:3]
    failures = Validation(program, model).run(largest_window(program, model))
    print("all passed" if failures == 0 else f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
