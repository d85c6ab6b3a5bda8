# API keys from a file: two tenants and an admin, and a file that changes while the server runs.
import copy
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request

import openai
import pytest
from raw import read_until, send_completion
from server import Server
from texts import words

KEYS = "# name key\nalice alice-secret\nbob bob-secret\n\nops ops-secret admin\n"


def ask(server, path, key=None, method="GET"):
    """Status and parsed body."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(server.url + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def stats(server, key):
    status, body = ask(server, "/v1/cache/stats", key)
    assert status == 200, body
    return body


def runs(server, key):
    status, body = ask(server, "/v1/cache/tree", key)
    assert status == 200, body
    return body["runs"]


def as_key(server, key):
    """The same server asked with this key."""
    asker = copy.copy(server)
    asker.client = openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)
    return asker


class KeyFile:
    def __init__(self, path):
        self.path = path
        self.write(KEYS)

    def write(self, text):
        self.path.write_text(text, encoding="ascii")
        self.path.chmod(0o600)


@pytest.fixture(scope="module")
def key_file(tmp_path_factory):
    return KeyFile(tmp_path_factory.mktemp("keys") / "keys.txt")


@pytest.fixture(scope="module")
def log_path(key_file):
    return key_file.path.with_name("log.txt")


@pytest.fixture(scope="module")
def server(servers, key_file, log_path):
    with open(log_path, "w", encoding="utf-8") as log:
        before = os.dup(2)
        os.dup2(log.fileno(), 2)  # what the server writes there
        try:
            started = Server(
                servers.binary(),
                servers.model_path("smollm2"),
                ["--api-key-file", str(key_file.path), "--log-level", "info"],
            )
        finally:
            os.dup2(before, 2)
            os.close(before)
    yield started
    started.stop()


def hang_up(server, log_path, expected):
    """Sends SIGHUP and waits until the log says what came of it."""
    before = log_path.read_text(encoding="utf-8").count(expected)
    server._process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 10
    while log_path.read_text(encoding="utf-8").count(expected) == before:
        assert time.monotonic() < deadline, log_path.read_text(encoding="utf-8")
        time.sleep(0.02)


def test_who_has_no_key_gets_in_nowhere_but_health(server):
    for key in (None, "wrong", "alice", "alice-secret-"):
        for method, path in (
            ("GET", "/v1/models"),
            ("GET", "/v1/cache/stats"),
            ("GET", "/v1/cache/tree"),
            ("POST", "/v1/cache/reset"),
            ("GET", "/metrics"),
        ):
            status, body = ask(server, path, key, method)
            assert status == 401 and body["error"]["code"] == "invalid_api_key", path
    status, health = ask(server, "/health")
    assert status == 200 and set(health) == {"status", "model"}  # no counts of others


def test_tenants_see_and_empty_their_own_cache_only(server):
    for key in ("alice-secret", "bob-secret", "ops-secret"):
        assert ask(server, "/v1/cache/reset", key, "POST")[0] == 200
    prompt = words(200, seed=60)
    alice, bob = as_key(server, "alice-secret"), as_key(server, "bob-secret")
    before = {key: stats(server, key) for key in ("alice-secret", "bob-secret")}
    first = alice.complete(prompt, max_tokens=4)
    assert first.cached_tokens == 0
    assert alice.complete(prompt, max_tokens=4).cached_tokens > 0
    assert bob.complete(prompt, max_tokens=4).cached_tokens == 0  # the same text, another tenant

    own = {key: stats(server, key) for key in ("alice-secret", "bob-secret")}
    assert own["alice-secret"]["hits"] == before["alice-secret"]["hits"] + 1
    assert own["bob-secret"]["hits"] == before["bob-secret"]["hits"]
    assert own["bob-secret"]["lookups"] == before["bob-secret"]["lookups"] + 1
    assert own["alice-secret"]["entries"] > 0 and own["bob-secret"]["entries"] > 0
    for numbers in own.values():  # nothing of the others
        assert "all" not in numbers and "cache_bytes_all" not in numbers

    tree = runs(server, "alice-secret")
    assert max(run["end"] for run in tree) >= first.prompt_tokens
    assert runs(server, "ops-secret") == []
    assert "harbour" not in json.dumps(tree)

    ops = stats(server, "ops-secret")
    assert ops["entries"] == 0
    parts = own["alice-secret"], own["bob-secret"], ops
    for name in ("entries", "bytes", "hits", "lookups", "tokens_reused"):
        assert ops["all"][name] == sum(part[name] for part in parts), name

    freed = ask(server, "/v1/cache/reset", "bob-secret", "POST")[1]
    assert freed["freed_entries"] == own["bob-secret"]["entries"]
    assert runs(server, "bob-secret") == []
    assert stats(server, "alice-secret")["entries"] == own["alice-secret"]["entries"]
    assert alice.complete(prompt, max_tokens=4).cached_tokens > 0
    assert bob.complete(prompt, max_tokens=4).cached_tokens == 0


def test_the_command_shows_a_tenants_tree(servers, server):
    as_key(server, "alice-secret").complete(words(200, seed=61), max_tokens=4)

    def cache(*flags, key="alice-secret"):
        return subprocess.run(
            [servers.binary(), "cache", "--url", server.url, "--api-key", key, *flags],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    shown = cache()
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("cache of alice: ") and "reused" in lines[0]
    assert any("prompt_end" in line and "completion_end" in line for line in lines[1:]), lines
    assert len(lines) == 1 + len(runs(server, "alice-secret"))
    assert cache(key="ops-secret").stdout.splitlines()[1].startswith("all keys: ")
    tree = json.loads(cache("--json").stdout)
    assert tree["object"] == "cache.tree" and tree["scope"] == {"tenant": "alice"}
    by_port = subprocess.run(
        [servers.binary(), "cache", "--port", str(server.port), "--json"],
        env={**os.environ, "REPRISE_API_KEY": "alice-secret"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(by_port.stdout)["scope"] == {"tenant": "alice"}
    wrong = cache(key="wrong")
    assert wrong.returncode == 1 and wrong.stdout == ""
    assert "401" in wrong.stderr and len(wrong.stderr.strip().splitlines()) == 1
    emptied = cache("--reset")
    assert emptied.returncode == 0 and emptied.stdout.startswith("dropped ")
    assert cache().stdout.splitlines()[1:] == []


def test_a_hangup_takes_the_files_keys_while_a_stream_runs(server, key_file, log_path):
    running = send_completion(
        server,
        key="bob-secret",
        prompt=words(30, seed=62),
        max_tokens=150,
        temperature=1,
        seed=3,
        stream=True,
    )
    received = read_until(running, b"data: ", 2)
    prompt = words(150, seed=63)
    as_key(server, "alice-secret").complete(prompt, max_tokens=1)
    # bob goes, carol comes, alice gets another key under her name.
    key_file.write("carol carol-secret\nalice alice-new\nops ops-secret admin\n")
    assert ask(server, "/v1/models", "carol-secret")[0] == 401  # not before the signal
    hang_up(server, log_path, "3 API keys from now on")
    for key, status in (
        ("bob-secret", 401),
        ("alice-secret", 401),
        ("alice-new", 200),
        ("carol-secret", 200),
        ("ops-secret", 200),
    ):
        assert ask(server, "/v1/models", key)[0] == status, key
    # Entries belong to names: the new key finds what the old one left.
    assert as_key(server, "alice-new").complete(prompt, max_tokens=1).cached_tokens > 0
    received += read_until(running, b"data: [DONE]") if b"[DONE]" not in received else b""
    assert received.count(b'"finish_reason":"') == 1  # who was let in stays in
    running.close()


@pytest.mark.parametrize(
    "broken, reason",
    [
        ("alice\n", "keys.txt line 1: got 1 word, expected NAME KEY or NAME KEY admin"),
        ("a x\nb x\n", "keys.txt line 2: got the key of line 1 again"),
        ("# nobody\n", "keys.txt: got no key in 1 lines"),
        (None, "keys.txt"),
    ],
)
def test_a_broken_file_keeps_the_keys(server, key_file, log_path, broken, reason):
    key_file.write(KEYS)
    hang_up(server, log_path, "3 API keys from now on")
    if broken is None:
        key_file.path.unlink()
    else:
        key_file.write(broken)
    hang_up(server, log_path, "the API keys stay as they were")
    line = [
        line
        for line in log_path.read_text(encoding="utf-8").splitlines()
        if "the API keys stay as they were" in line
    ][-1]
    assert reason in line
    assert ask(server, "/v1/models", "alice-secret")[0] == 200
    assert ask(server, "/v1/models", "x")[0] == 401
    key_file.write(KEYS)


def test_no_key_and_no_prompt_stands_in_the_log(server, log_path):
    as_key(server, "alice-secret").complete("xylophone " * 20, max_tokens=1)
    log = log_path.read_text(encoding="utf-8")
    assert "SIGHUP" in log
    for secret in ("-secret", "alice-new", "xylophone", "harbour"):
        assert secret not in log


def test_a_hangup_without_a_file_is_ignored(servers):
    server = Server(servers.binary(), servers.model_path("smollm2"))
    try:
        for _ in range(3):
            server._process.send_signal(signal.SIGHUP)
            time.sleep(0.05)
        assert server.complete("One two three", max_tokens=1).completion_tokens == 1
    finally:
        assert server.stop() == 0


def test_wrong_files_are_refused_at_the_start(servers, tmp_path):
    broken = tmp_path / "broken.txt"
    broken.write_text("alice secret-1 root\n", encoding="ascii")
    for path, word in ((broken, "broken.txt line 1"), (tmp_path / "none.txt", "none.txt")):
        done = subprocess.run(
            [servers.binary(), "serve", "-m", servers.model_path("smollm2"), "--port", "0"]
            + ["--api-key-file", str(path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 1
        errors = [line for line in done.stderr.splitlines() if line.startswith("reprise: ")]
        assert len(errors) == 1 and word in errors[0] and "secret" not in done.stderr


def test_a_file_that_everybody_reads_gets_a_warning(servers, tmp_path):
    path = tmp_path / "open.txt"
    path.write_text(KEYS, encoding="ascii")
    for mode, is_warned in ((0o644, True), (0o600, False)):
        path.chmod(mode)
        done = subprocess.run(
            [servers.binary(), "serve", "-m", str(tmp_path / "none.gguf")]
            + ["--api-key-file", str(path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 1
        assert ("everybody on this machine can read" in done.stderr) == is_warned, done.stderr
