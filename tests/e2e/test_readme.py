# The README says what the program does.
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_options_table_is_the_programs_own(servers):
    table = subprocess.run(
        [servers.binary(), "options"], capture_output=True, text=True, check=True
    )
    assert table.stdout.strip() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_curl_conversation_still_gives_the_printed_replies(servers):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    server = servers.get("smollm2")
    server.reset_cache()
    messages = [
        {"role": "system", "content": "You are a harbour guide. Answer in one short sentence."},
        {"role": "user", "content": "What does a lighthouse do?"},
    ]
    first = server.chat(messages, max_tokens=100)
    messages += [
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "Who built it?"},
    ]
    second = server.chat(messages, max_tokens=100)
    for answer in (first, second):
        assert f'"content":"{answer.text}"' in readme
        assert f'"cached_tokens":{answer.cached_tokens}}}' in readme
    assert second.cached_tokens == 64
