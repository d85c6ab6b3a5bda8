# Requests over sockets of one's own, for tests that leave, wait or look at the connection's end.
import http.client
import json


def post(server, path, body, headers=None):
    """Status and parsed body of a POST with any bytes."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, {"Content-Type": "application/json", **(headers or {})})
    reply = connection.getresponse()
    result = reply.status, json.loads(reply.read())
    connection.close()
    return result


def stream_of(server, path, body):
    """The objects of a stream that must begin with 200 and end with [DONE]."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request("POST", path, json.dumps({**body, "stream": True}))
    reply = connection.getresponse()
    received = reply.read()
    connection.close()
    assert reply.status == 200, received
    events = events_of(received)
    assert events.pop() == "[DONE]"
    return [json.loads(event) for event in events]


def request_bytes(path, body, key=None):
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n"
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    return head.encode() + b"\r\n" + data


def send_completion(server, key=None, **fields):
    """A connection on which POST /v1/completions has been sent."""
    connection = server.connect()
    body = {"model": "test", "temperature": 0, **fields}
    connection.sendall(request_bytes("/v1/completions", body, key))
    return connection


def read_until(connection, text, count=1):
    received = b""
    while received.count(text) < count:
        piece = connection.recv(65536)
        assert piece, f"the connection ended after {received!r}"
        received += piece
    return received


def read_to_end(connection):
    """All that comes until the server closes."""
    received = b""
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionError:
            break
        if not piece:
            break
        received += piece
    connection.close()
    return received


def status_of(reply):
    return int(reply.split(b" ", 2)[1])


def json_body_of(reply):
    return json.loads(reply.split(b"\r\n\r\n", 1)[1])


def events_of(reply):
    """The data of the events of a stream, [DONE] included."""
    lines = reply.decode().splitlines()
    return [line[len("data: ") :] for line in lines if line.startswith("data: ")]
