# The openai package for Node: node/clients.mjs against the real server.
import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "node"
PARTS = ["models", "chat", "stream", "completions", "abort", "structured_output", "tools"]
PARTS += ["run_tools", "responses", "errors"]


@pytest.fixture(scope="module")
def outcome(servers, tmp_path_factory):
    """What the script printed; it runs beside its packages, which `npm ci` put into REPRISE_NODE."""
    packages = Path(os.environ.get("REPRISE_NODE") or tmp_path_factory.mktemp("node"))
    if not (packages / "node_modules").exists():
        for name in ("package.json", "package-lock.json"):
            shutil.copy(FOLDER / name, packages)
        options = ["--omit=peer", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(["npm", "ci", *options], cwd=packages, check=True, timeout=300)
    shutil.copy(FOLDER / "clients.mjs", packages)
    server = servers.get("smollm2")
    done = subprocess.run(
        ["node", "clients.mjs", server.url],
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    server.wait_until_idle()
    return done


@pytest.mark.parametrize("part", PARTS)
def test_the_node_client(outcome, part):
    assert part in outcome.stdout.splitlines(), outcome.stderr


def test_it_says_when_something_fails(outcome):
    assert outcome.returncode == 0, outcome.stderr
