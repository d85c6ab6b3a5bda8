# The real program behind real sockets: one server per model and flags, shared by the tests.
import os
import re
import signal
import subprocess
import threading

import pytest
from server import Server

MODELS = {"smollm2": "REPRISE_MODEL_SMOLLM2", "gemma3": "REPRISE_MODEL_GEMMA3"}


class ServerPool:
    """Starts a server on first use of (model, flags) and keeps it until the session ends."""

    def __init__(self):
        self._servers = {}

    def get(self, model, *flags):
        key = (model, flags)
        if key not in self._servers:
            self._servers[key] = Server(self.binary(), self.model_path(model), flags)
        return self._servers[key]

    @staticmethod
    def binary():
        return os.environ["REPRISE_BINARY"]

    @staticmethod
    def model_path(model):
        return os.environ[MODELS[model]]

    def stop_all(self):
        for server in self._servers.values():
            server.stop()


@pytest.fixture(scope="session")
def servers():
    pool = ServerPool()
    yield pool
    pool.stop_all()


@pytest.fixture(scope="session", params=["gemma3", "smollm2"])
def model(request):
    return request.param


@pytest.fixture
def warm(servers, model):
    """A server with the prompt cache on, emptied before the test."""
    server = servers.get(model)
    server.reset_cache()
    return server


@pytest.fixture
def cold(servers, model):
    """The same model with the prompt cache off."""
    return servers.get(model, "--prompt-cache=off")
