"""A running Open WebUI, used over HTTP as its web page uses it (components/chat/Chat.svelte)."""
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

# The variables that the page fills in for prompts; their values are of no matter.
VARIABLES = {
    "{{USER_NAME}}": "User",
    "{{USER_LOCATION}}": "Unknown",
    "{{CURRENT_DATETIME}}": "2026-01-15 10:30:00",
    "{{CURRENT_DATE}}": "2026-01-15",
    "{{CURRENT_TIME}}": "10:30:00",
    "{{CURRENT_WEEKDAY}}": "Thursday",
    "{{CURRENT_TIMEZONE}}": "Europe/Berlin",
    "{{USER_LANGUAGE}}": "en-US",
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class WebUi:
    """Starts `open-webui serve` of this interpreter's environment, its data in a folder of ours."""

    def __init__(self, upstream_url, data_folder):
        self.port = free_port()
        self.token = None
        environment = {
            **os.environ,
            "DATA_DIR": str(data_folder),
            "WEBUI_SECRET_KEY": "none",
            "WEBUI_AUTH": "False",
            "OFFLINE_MODE": "True",
            "ENABLE_OLLAMA_API": "False",
            "OPENAI_API_BASE_URLS": upstream_url,
            "OPENAI_API_KEYS": "sk-recorded",
            "RAG_EMBEDDING_ENGINE": "openai",  # the default wants torch
            "ANONYMIZED_TELEMETRY": "False",
            "DO_NOT_TRACK": "true",
        }
        self._log = open(Path(data_folder) / "log.txt", "w", encoding="utf-8")
        self._process = subprocess.Popen(
            [Path(sys.executable).parent / "open-webui", "serve", "--host", "127.0.0.1"]
            + ["--port", str(self.port)],
            env=environment,
            cwd=data_folder,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        if not self._is_up_within(180):
            self.stop()
            raise RuntimeError(f"open-webui did not start: {self.log_end()}")
        signed_in = self.post("/api/v1/auths/signin", {"email": "", "password": ""})
        self.token = signed_in["token"]

    def _is_up_within(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self.get("/health")
                return True
            except OSError:
                time.sleep(0.5)
        return False

    def log_end(self):
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")[-4000:]

    def stop(self):
        self._process.terminate()
        self._process.wait(30)
        self._log.close()

    def get(self, path):
        return self._request("GET", path, None)

    def post(self, path, body):
        return self._request("POST", path, body)

    def _request(self, method, path, body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read()!r}") from error

    def set_connection(self, upstream_url, **config):
        """Replaces the one connection of the admin settings: api_type, provider."""
        self.post(
            "/openai/config/update",
            {
                "ENABLE_OPENAI_API": True,
                "OPENAI_API_BASE_URLS": [upstream_url],
                "OPENAI_API_KEYS": ["sk-recorded"],
                "OPENAI_API_CONFIGS": {"0": {"enable": True, "auth_type": "bearer", **config}},
            },
        )
        self.models()

    def models(self):
        return self.get("/api/models?refresh=true")["data"]


class Chat:
    """One saved chat: `say` does what the page does for a message of the user."""

    def __init__(self, web_ui, model, system=None, params=None, tool_ids=()):
        self._web_ui = web_ui
        self._model = model
        self._system = system
        self._params = params or {}
        self._tool_ids = list(tool_ids)
        self._last_reply_id = None
        self.id = None

    def say(self, text, files=(), background_tasks=None):
        """Sends a message; returns the reply as Open WebUI stored it, once it is complete."""
        user_message = {
            "id": str(uuid.uuid4()),
            "parentId": self._last_reply_id,
            "childrenIds": [],
            "role": "user",
            "content": text,
            "timestamp": int(time.time()),
            "models": [self._model],
        }
        if files:
            user_message["files"] = list(files)
        reply_id = str(uuid.uuid4())
        self._post(user_message, reply_id, background_tasks or {})
        self._last_reply_id = reply_id
        return self._wait_for(reply_id)

    def continue_reply(self):
        """The button that has the last reply go on."""
        reply = self.messages()[self._last_reply_id]
        user_message = self.messages()[reply["parentId"]]
        self._post(user_message, reply["id"], {}, assistant_message_id=reply["id"])
        return self._wait_for(reply["id"])

    def stored(self):
        return self._web_ui.get(f"/api/v1/chats/{self.id}")

    def messages(self):
        return self.stored()["chat"]["history"]["messages"]

    def _post(self, user_message, reply_id, background_tasks, **more):
        system = [{"role": "system", "content": self._system}] if self._system else []
        body = {
            "stream": self._params.get("stream_response", True),
            "model": self._model,
            **({"messages": system} if system else {}),
            "params": {**self._params, "model_controls": {}},
            "tool_ids": self._tool_ids,
            "tool_servers": [],
            "features": {
                "voice": False,
                "image_generation": False,
                "code_interpreter": False,
                "web_search": False,
            },
            "variables": VARIABLES,
            "model_item": {"id": self._model},
            "session_id": "recorder",  # a browser's socket; events go to nobody
            **({"chat_id": self.id} if self.id else {"chat_variables": {}}),
            "id": reply_id,
            "message_ids": [{"model_id": self._model, "message_id": reply_id}],
            "parent_id": user_message["parentId"],
            "user_message": user_message,
            "background_tasks": background_tasks,
            **more,
        }
        self.id = self._web_ui.post("/api/chat/completions", body)["chat_id"]

    def _wait_for(self, reply_id, seconds=600):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            active = self._web_ui.get(f"/api/tasks/chat/{self.id}")["task_ids"]
            reply = self.messages()[reply_id]
            if not active and (reply.get("done") or reply.get("error")):
                return reply
            time.sleep(0.3)
        raise TimeoutError(f"no complete reply in chat {self.id}")
