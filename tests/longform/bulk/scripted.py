"""A server that answers `POST /tts/bulk` as its texts ask for: it refuses, breaks off, or speaks."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HEALTH = {
    "version": "1",
    "backend": "none",
    "compute": "none",
    "kernels": "none",
    "weights": {"source": "none", "precision": "none"},
    "device": "cpu",
}


class Scripted(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, most: int = 50, *, has_bulk: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.most, self.has_bulk = most, has_bulk
        self.asked = Counter[str]()
        self.requests: list[int] = []  # how many lines each had that was not refused

    def handle_error(self, *_: object) -> None:
        """A client that has gone is not worth a word."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def scripted(most: int = 50, *, has_bulk: bool = True) -> Iterator[Scripted]:
    with Scripted(most, has_bulk=has_bulk) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        if self.path.startswith("/health"):
            self._json(200, HEALTH)
        else:
            self._json(405 if self.server.has_bulk else 404, _error("method_not_allowed"))

    def do_POST(self) -> None:
        lines = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["requests"]
        if len(lines) > self.server.most:
            self._json(400, _error("bad_request", "too many"))
            return
        self.server.requests.append(len(lines))
        self.send_response(200)
        self.end_headers()  # until the connection closes
        for index, line in enumerate(lines):
            text = line["text"]
            self.server.asked[text] += 1
            first = self.server.asked[text] == 1
            if text.startswith("breaks off") and (first or "always" in text):
                self.wfile.write(b'{"index": %d, "bytes": 100, "duration": 1, "words": []}\nhalf' % index)
                return
            if text.startswith("busy") and self.server.asked[text] <= 3:
                self._refuse(index, "too_busy", 429)
            elif text.startswith("wrong"):
                self._refuse(index, "invalid_input", 422)
            elif text.startswith("away") and (self.server.asked[text] <= 4 or "always" in text):
                self._refuse(index, "g2p_unavailable", 503)
            elif text.startswith("fails") and (first or "always" in text):
                self._refuse(index, "engine_error", 500)
            else:
                audio = text.encode()
                head = {"index": index, "bytes": len(audio), "duration": 1.5, "words": [{"text": text}]}
                self.wfile.write(json.dumps(head).encode() + b"\n" + audio)

    def _refuse(self, index: int, code: str, status: int) -> None:
        error = {"code": code, "message": f"{code}!", "field": None, "status": status, "retry_after": None}
        self.wfile.write(json.dumps({"index": index, "bytes": 0, "error": error}).encode() + b"\n")

    def _json(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _error(code: str, message: str = "no") -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "field": None}}
