"""A server that answers as it is told, over a real socket, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b"RIFF"
    delay: float = 0.0  # seconds before anything is sent
    broken_off: bool = False  # chunked, and never ended


def busy(retry_after: str | None = "0", status: int = 429) -> Answer:
    error = {"error": {"code": "too_busy", "message": "come back later", "field": None}}
    return Answer(status, {"Retry-After": retry_after} if retry_after else {}, json.dumps(error).encode())


class Scripted:
    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: deque[Answer] = deque()
        self.asked: list[tuple[str, Any]] = []  # path and body
        self.was_asked = threading.Event()


@contextmanager
def running() -> Iterator[Scripted]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            script.asked.append((self.path, json.loads(body)))
            script.was_asked.set()
            self._answer(script.answers.popleft())

        def do_GET(self) -> None:
            script.asked.append((self.path, None))
            self._answer(script.answers.popleft())

        def _answer(self, answer: Answer) -> None:
            time.sleep(answer.delay)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.broken_off:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(answer.content), answer.content))
                self.close_connection = True
            else:
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # clients that leave early are part of the tests

    server = Server(("127.0.0.1", 0), Handler)
    script = Scripted(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
