"""A G2P service that needs no espeak and misbehaves on cue: a word of the text says how.

`python -m tests.services.fake_g2p [port]` prints its address and serves until it is ended.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kokoro_server import languages
from kokoro_server.g2p.result import G2PResult
from tests.text.fake_g2p import FakeG2P

SLOW, GARBAGE, WRONG_FORM, TOO_FEW = "slowly", "garbage", "wrongly", "fewer"
HUGE, ENDLESS, CUT_OFF = "hugely", "endlessly", "halfway"
SLOWNESS = 30.0  # seconds, longer than the tests' G2P_TIMEOUT
HUGE_PHONEMES = 5_000_000  # more bytes than the client reads of an answer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(json.dumps({"status": "ok"}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        words = set(" ".join(body["texts"]).lower().replace(".", "").split())
        if SLOW in words:
            time.sleep(SLOWNESS)
        if ENDLESS in words:
            self._endless()
            return
        if CUT_OFF in words:
            self._head(1_000_000)
            self.wfile.write(b'{"results": [')
            self.close_connection = True
            return
        self._answer(b"\xff\xfe<html>" if GARBAGE in words else json.dumps(_results(body, words)).encode())

    def _answer(self, content: bytes) -> None:
        self._head(len(content))
        self.wfile.write(content)

    def _head(self, length: int | None) -> None:
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _endless(self) -> None:
        """An answer without a length that goes on until the client has had enough."""
        self.close_connection = True
        self._head(None)
        while True:
            self.wfile.write(b" " * 1_000_000)

    def handle(self) -> None:
        with suppress(OSError):  # the client has had enough
            super().handle()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def _results(body: dict[str, Any], words: set[str]) -> dict[str, Any]:
    if WRONG_FORM in words:
        return {"results": {"phonemes": [1, 2, 3]}}
    converted = asyncio.run(FakeG2P().convert(body["texts"], languages.parse(body["lang"])))
    results = [_conversion(result, body["lang"]) for result in converted]
    if TOO_FEW in words:
        results.pop()
    if HUGE in words:
        results[0] |= {"phonemes": "a" * HUGE_PHONEMES, "tokens": None}
    return {"results": results}


def _conversion(result: G2PResult, language: str) -> dict[str, Any]:
    tokens = [token._asdict() for token in result.tokens] if result.tokens is not None else None
    return {"phonemes": result.phonemes, "lang": language, "tokens": tokens, "dropped": []}


@contextmanager
def running(port: int = 0) -> Iterator[str]:
    """Its address, while it runs as a process. At the end it is killed: its connections break."""
    command = [sys.executable, "-m", "tests.services.fake_g2p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def main(port: int = 0) -> None:
    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
