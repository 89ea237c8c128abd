"""A server that sends scripted responses over a real socket and records the requests."""

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
class ScriptedResponse:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b"RIFF"
    delay: float = 0.0  # seconds before anything is sent
    broken_off: bool = False  # chunked, and never ended


def busy(retry_after: str | None = "0", status: int = 429) -> ScriptedResponse:
    error = {"error": {"code": "too_busy", "message": "come back later", "field": None}}
    return ScriptedResponse(status, {"Retry-After": retry_after} if retry_after else {}, json.dumps(error).encode())


class ScriptedServer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.responses: deque[ScriptedResponse] = deque()
        self.requests: list[tuple[str, Any]] = []  # path and body
        self.got_request = threading.Event()


@contextmanager
def running() -> Iterator[ScriptedServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            script.requests.append((self.path, json.loads(body)))
            script.got_request.set()
            self._respond(script.responses.popleft())

        def do_GET(self) -> None:
            script.requests.append((self.path, None))
            self._respond(script.responses.popleft())

        def _respond(self, response: ScriptedResponse) -> None:
            time.sleep(response.delay)
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            if response.broken_off:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(response.content), response.content))
                self.close_connection = True
            else:
                self.send_header("Content-Length", str(len(response.content)))
                self.end_headers()
                self.wfile.write(response.content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # clients that leave early are part of the tests

    server = Server(("127.0.0.1", 0), Handler)
    script = ScriptedServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
