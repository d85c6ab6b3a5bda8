#!/usr/bin/env python3
"""Records what Open WebUI 0.12.4 sends to reprise, as tests/e2e/fixtures/open_webui.json.

    python3.11 -m venv build/open_webui          # 3.11 or 3.12; 1.1 GB, minutes
    build/open_webui/bin/pip install --no-deps open-webui==0.12.4
    build/open_webui/bin/python tools/record_open_webui/requirements.py > build/open_webui/needed
    build/open_webui/bin/pip install -r build/open_webui/needed
    build/open_webui/bin/python tools/record_open_webui/record.py --binary REPRISE --model GGUF

GGUF: SmolLM2-135M-Instruct (tools/fetch_model). Starts `reprise serve`, a recording proxy before it
and Open WebUI's own server, whose data lies in a folder of this run; does over HTTP what its page
does (scenarios.py), and writes each request as it arrived: three minutes. Requests are left as they
are; replies are helped: the proxy shortens them, has the small model call a tool where one is to be
called, and tells three itself (two of a thinking model, and one that broke off). Fails, and writes
nothing, where a request was not answered as expected or Open WebUI did not read a reply as sent.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from recording_proxy import RecordingProxy
from scenarios import MODEL, Scenarios
from web_ui import WebUi

FIXTURES = Path(__file__).resolve().parents[2] / "tests/e2e/fixtures/open_webui.json"


class Fixtures:
    """Requests by name; `write` gives one line to each."""

    def __init__(self):
        self._cases = {}

    def keep(self, name, exchange, refused=None):
        """`refused`: the parameter that the 400 names which the request is to be answered with."""
        case = {"path": exchange.path, "headers": exchange.headers, "body": exchange.body}
        if exchange.method != "POST":
            case = {"method": exchange.method, **case}
        if exchange.body is None:
            del case["body"]
        if refused:
            case["refused"] = refused
        self._cases[name] = case
        print(f"{name}: {exchange.method} {exchange.path} {exchange.status}", flush=True)
        if exchange.status != (400 if refused else 200):
            raise RuntimeError(f"{name}: answered with {exchange.reply!r}")
        if refused and json.loads(exchange.reply)["error"]["param"] != refused:
            raise RuntimeError(f"{name}: not {refused} refused: {exchange.reply!r}")

    def write(self, path):
        lines = [f"{json.dumps(name)}: {json.dumps(case)}" for name, case in self._cases.items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def start_reprise(binary, model):
    """The process, its host and its port."""
    command = [binary, "serve", "-m", model, "--port", "0", "--alias", MODEL]
    process = subprocess.Popen([*command, "--log-level", "warn"], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if found := re.search(r"at http://([\d.]+):(\d+)", line):
            return process, found[1], int(found[2])
    raise RuntimeError(f"{binary} ended with {process.wait()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True, help="reprise")
    parser.add_argument("--model", required=True, help="GGUF of SmolLM2-135M-Instruct")
    parser.add_argument("--into", type=Path, default=FIXTURES, help="the file to write")
    options = parser.parse_args()
    fixtures = Fixtures()
    process, host, port = start_reprise(options.binary, options.model)
    proxy = RecordingProxy(host, port)
    url = f"http://127.0.0.1:{proxy.port}/v1"
    with tempfile.TemporaryDirectory() as folder:
        web_ui = None
        try:
            web_ui = WebUi(url, folder)
            Scenarios(web_ui, proxy, fixtures, url).run()
        except Exception:
            traceback.print_exc()
            print(f"exit status of reprise (None: it runs): {process.poll()}")
            if web_ui:
                print(f"Open WebUI's log ends: {web_ui.log_end()}")
            return 1
        finally:
            if web_ui:
                web_ui.stop()
            proxy.stop()
            process.terminate()
            process.wait()
    fixtures.write(options.into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
