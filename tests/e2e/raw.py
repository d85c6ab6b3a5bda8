# Requests over sockets of one's own, for tests that leave, wait or look at the connection's end.
import json


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
