"""An HTTP proxy in front of an OpenAI-compatible server that keeps every request and its reply."""
import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What a server may act upon; the rest (host, length, user agent) says nothing about the client.
KEPT_HEADERS = ("accept", "accept-encoding", "authorization", "content-type", "transfer-encoding")
REPLY_TOKENS = 48
HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}


@dataclass
class Exchange:
    method: str
    path: str
    headers: dict
    body: object  # parsed JSON; None where nothing was sent
    status: int = 0
    reply: bytes = b""
    done: threading.Event = field(default_factory=threading.Event)

    def objects(self):
        """The reply's JSON: one object, or those of the stream's events."""
        if not self.reply.startswith((b"data: ", b"event: ", b":")):
            return [json.loads(self.reply)]
        lines = [line[6:] for line in self.reply.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    def text(self):
        """The text of the reply, of chat (streamed or whole) or of the Responses API's events."""
        text = ""
        for value in self.objects():
            if value.get("type") == "response.output_text.delta":
                text += value["delta"]
            for choice in value.get("choices", []):
                text += (choice.get("delta") or choice.get("message") or {}).get("content") or ""
        return text

    def usage(self):
        """Token counts by the Responses API's names; None where the reply has none.

        Nor where it ends in response.incomplete, which Open WebUI 0.12.4 passes over.
        """
        for value in reversed(self.objects()):
            if value.get("type") == "response.incomplete":
                return None
            usage = value.get("usage") or value.get("response", {}).get("usage")
            if usage:
                return {
                    "input_tokens": usage.get("prompt_tokens", usage.get("input_tokens")),
                    "output_tokens": usage.get("completion_tokens", usage.get("output_tokens")),
                    "total_tokens": usage["total_tokens"],
                }
        return None


class RecordingProxy:
    """Listens on a free port and forwards to (host, port).

    The exchanges keep what came in. What is forwarded may differ: replies are shortened to
    REPLY_TOKENS and made without chance, and `steer(body)`, where set, returns another body (it
    makes a small model call a tool). `canned`, where set, are the events of the next reply; the
    server never sees that request.
    """

    def __init__(self, host, port):
        self.exchanges = []
        self.steer = None
        self.canned = None
        self._upstream = (host, port)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler_class())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def take(self):
        """All exchanges since the last call, once they are over."""
        with self._lock:
            taken, self.exchanges = self.exchanges, []
        for exchange in taken:
            if not exchange.done.wait(300):
                raise TimeoutError(f"no end of the reply to {exchange.path}")
        return taken

    def is_quiet(self, seconds):
        """Whether no request came or ran for that long."""
        with self._lock:
            count = len(self.exchanges)
        time.sleep(seconds)
        with self._lock:
            return count == len(self.exchanges) and all(e.done.is_set() for e in self.exchanges)

    def _handler_class(proxy):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                proxy._exchange(self)

            def do_POST(self):
                proxy._exchange(self)

            def do_DELETE(self):
                proxy._exchange(self)

            def log_message(self, *_):
                pass

        return Handler

    def _exchange(self, handler):
        data = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        headers = {k.lower(): v for k, v in handler.headers.items() if k.lower() in KEPT_HEADERS}
        body = json.loads(data) if data else None
        exchange = Exchange(handler.command, handler.path, headers, body)
        with self._lock:
            self.exchanges.append(exchange)
        try:
            if self.canned and body is not None:
                events, self.canned = self.canned, None
                self._answer(handler, exchange, events)
                return
            if body is not None:
                data = json.dumps(self._steered(json.loads(data))).encode()
            self._forward(handler, exchange, data)
        finally:
            exchange.done.set()

    def _steered(self, body):
        name = "max_output_tokens" if "input" in body else "max_tokens"
        body[name] = min(body.get(name, REPLY_TOKENS), REPLY_TOKENS)
        body["temperature"] = 0
        return self.steer(body) if self.steer else body

    def _answer(self, handler, exchange, events):
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        exchange.status, exchange.reply = 200, text.encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Content-Length", str(len(exchange.reply)))
        handler.end_headers()
        handler.wfile.write(exchange.reply)

    def _forward(self, handler, exchange, data):
        headers = {k: v for k, v in handler.headers.items() if k.lower() not in HOP_BY_HOP}
        connection = http.client.HTTPConnection(*self._upstream, timeout=300)
        connection.request(exchange.method, exchange.path, data or None, headers)
        reply = connection.getresponse()
        exchange.status = reply.status
        handler.send_response_only(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in HOP_BY_HOP:
                handler.send_header(name, value)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while piece := reply.read1(65536):
            exchange.reply += piece
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")
        connection.close()
