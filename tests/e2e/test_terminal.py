# The commands on a terminal: the prompt of `run`, and what closing one means for `serve`.
import os
import re
import signal
import subprocess
import time
import urllib.request

import pytest
from terminal import Terminal

PROMPT = r"> "
SUMMARY = r"\[(\d+) prompt tokens?, (\d+) cached[^\]]*\]"


@pytest.fixture
def open_terminal(servers):
    opened = []

    def start(*arguments, **options):
        terminal = Terminal(
            servers.binary(), *arguments, "-m", servers.model_path("smollm2"), **options
        )
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


@pytest.fixture
def chat(open_terminal):
    terminal = open_terminal("run", "-n", "4", "--prompt-cache-capacity", "1GiB")
    terminal.wait_for(r"/help lists")
    terminal.wait_for(PROMPT)
    return terminal


def prompt_tokens(terminal):
    found = int(terminal.wait_for(SUMMARY).group(1))
    terminal.wait_for(PROMPT)
    return found


@pytest.fixture(scope="module")
def tokens_of(servers):
    """How long the prompt of a conversation with this one message is."""
    server = servers.get("smollm2")
    return lambda text: (
        server.chat([{"role": "user", "content": text}], max_tokens=1).prompt_tokens
    )


def leave(terminal):
    terminal.type("/exit\r")
    assert terminal.wait() == 0


def test_lines_of_any_length_arrive_whole(chat, tokens_of):
    long = "lighthouse " * 1200 + "end"  # 13 kB: the kernel's lines end at 4095 bytes
    chat.type(long)
    chat.type("\r")
    assert prompt_tokens(chat) == tokens_of(long)
    leave(chat)


def test_a_paste_of_many_lines_is_one_message(chat, tokens_of):
    text = "def f(x):\n\treturn x\n\n# caf\u00e9 \U0001f3e0\n" * 40 + "What is it?"
    chat.paste(text)
    chat.type("\r")
    assert prompt_tokens(chat) == tokens_of(text)
    leave(chat)


def test_alt_enter_and_a_backslash_begin_another_line(chat, tokens_of):
    chat.type("one\x1b\rtwo\\\rthree\r")
    assert prompt_tokens(chat) == tokens_of("one\ntwo\nthree")
    leave(chat)


def test_arrows_edit_and_bring_back(chat, tokens_of):
    chat.type("Hxllo caf\u00e8!" + "\x1b[D" + "\x7f\u00e9")
    chat.type("\x1b[H\x1b[C\x1b[3~e\r")
    assert prompt_tokens(chat) == tokens_of("Hello caf\u00e9!")
    chat.type("/reset\r")
    chat.wait_for(PROMPT)
    chat.type("\x1b[A\x1b[A\r")
    assert prompt_tokens(chat) == tokens_of("Hello caf\u00e9!")
    leave(chat)


def test_ctrl_c_at_the_prompt_keeps_the_conversation(chat, tokens_of):
    chat.type("Good day.\r")
    first = prompt_tokens(chat)
    chat.type("never mind\x03")
    chat.wait_for(PROMPT)
    for _ in range(3):
        chat.type("\x03")
        chat.wait_for("Ctrl-D or /exit leaves")
        chat.wait_for(PROMPT)
    chat.type("And good night.\r")
    assert prompt_tokens(chat) > first  # goes on, without what was cleared
    chat.type("\x1b[200~half a paste\x03")
    chat.wait_for(PROMPT)
    chat.type("/reset\rGood day.\r")
    chat.wait_for(PROMPT)
    assert prompt_tokens(chat) == first == tokens_of("Good day.")
    chat.type("\x04")
    assert chat.wait() == 0


def test_ctrl_c_stops_a_reply_and_more_of_them_end_nothing(open_terminal):
    chat = open_terminal("run", "--prompt-cache-capacity", "1GiB")
    chat.wait_for(PROMPT)
    chat.type("Tell me a very long story about a lighthouse, with many chapters.\r")
    chat.wait_for(r"(?s)chapters\..*\w+ \w+ \w+ \w+")
    chat.type("\x03")
    chat.type("\x03")
    chat.wait_for(r"\[\d+ prompt tokens, \d+ cached[^\]]*; stopped\]")
    chat.type("\x03")
    chat.wait_for(PROMPT)
    time.sleep(0.2)
    chat.type("\x03")
    chat.wait_for("Ctrl-D or /exit leaves")
    chat.type("/bye\r")
    assert chat.wait() == 0


def test_what_is_typed_during_a_reply_is_the_next_message(open_terminal, tokens_of):
    chat = open_terminal("run", "-n", "40", "--prompt-cache-capacity", "1GiB")
    chat.wait_for(PROMPT)
    chat.type("Good day.\r/reset\r" + "lamp " * 1500 + "\r")
    chat.wait_for(SUMMARY)
    assert int(chat.wait_for(SUMMARY).group(1)) == tokens_of("lamp " * 1500)
    leave(chat)


def test_commands_and_blank_lines_are_no_messages(chat):
    chat.type("/help\r")
    chat.wait_for("Alt-Enter")
    chat.type("\r   \r/exti\r")
    chat.wait_for('unknown command "/exti"; /help')
    chat.wait_for(PROMPT)
    assert not re.search(SUMMARY, chat.text)
    leave(chat)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_leaves_the_terminal_as_it_was(open_terminal, ending):
    chat = open_terminal("run")
    before = chat.settings()
    chat.wait_for(PROMPT)
    assert chat.settings() != before
    chat.type("half a message")
    chat.wait_for("half a message")
    os.kill(chat.pid, ending)
    assert chat.wait() == -ending
    assert chat.settings() == before
    assert chat.text.rstrip().endswith("\x1b[?2004l")


def test_ctrl_z_gives_the_terminal_back_for_a_while(open_terminal, tokens_of):
    chat = open_terminal("run", "-n", "2", "--prompt-cache-capacity", "1GiB")
    before = chat.settings()
    chat.wait_for(PROMPT)
    chat.type("Good ")
    chat.wait_for("Good ")
    chat.type("\x1a")
    chat.wait_until_stopped()
    assert chat.settings() == before
    os.kill(chat.pid, signal.SIGCONT)
    chat.wait_for("> Good ")
    chat.type("day.\r")
    assert prompt_tokens(chat) == tokens_of("Good day.")
    leave(chat)


def serving(terminal):
    url = terminal.wait_for(r"at (http://[\d.]+:\d+)").group(1)
    assert urllib.request.urlopen(url + "/health", timeout=60).status == 200
    return url


SERVE = ["serve", "--port", "0", "--prompt-cache-capacity", "1GiB"]


def test_a_closed_terminal_stops_the_server(open_terminal):
    terminal = open_terminal(*SERVE)
    serving(terminal)
    terminal.hang_up()  # the system sends SIGHUP to the session
    assert terminal.wait(20) == 0


def test_with_a_key_file_or_nohup_it_goes_on(servers, open_terminal, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text("alice alice-key\n", encoding="ascii")
    keys.chmod(0o600)
    log = tmp_path / "out.txt"
    with_keys = open_terminal(*SERVE, "--api-key-file", str(keys))
    command = " ".join([servers.binary(), *SERVE, "-m", servers.model_path("smollm2")])
    nohup = Terminal("/bin/sh", "-c", f"exec nohup {command} >{log} 2>&1")
    url = serving(with_keys)
    while "at http://" not in (log.read_text() if log.exists() else ""):
        time.sleep(0.1)
    other = re.search(r"at (http://[\d.]+:\d+)", log.read_text()).group(1)
    try:
        for terminal in (with_keys, nohup):
            terminal.hang_up()
        time.sleep(1)
        for address in (url, other):
            assert urllib.request.urlopen(address + "/health", timeout=60).status == 200
    finally:
        for terminal in (with_keys, nohup):
            os.kill(terminal.pid, signal.SIGTERM)
            assert terminal.wait(20) == 0


def test_signals_say_how_long_it_may_take(servers):
    server = subprocess.Popen(
        [servers.binary(), *SERVE, "-m", servers.model_path("smollm2"), "--drain-timeout", "7"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    url = re.search(r"at (\S+)", server.stdout.readline()).group(1)
    assert urllib.request.urlopen(url + "/health", timeout=60).status == 200
    server.send_signal(signal.SIGTERM)
    _, log = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "for at most 7 s, then stopping; a second signal ends at once" in log
