"""Drives a module as Speech Dispatcher does, and a small server that it speaks through."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MODULE = (sys.executable, "-P", "-m", "kokoro_server.screen_reader")
USUAL = {
    "pitch": "0",
    "rate": "0",
    "volume": "100",
    "punctuation_mode": "none",
    "spelling_mode": "off",
    "cap_let_recogn": "none",
    "voice": "male1",
    "language": "en",
    "synthesis_voice": "NULL",
}
LAST = ("702", "703", "704", "301")


@dataclass
class Driver:
    """What is sent to a module, and what it answers. `sounds` are the samples of the last message."""

    process: subprocess.Popen[bytes]
    sounds: list[bytes] = field(default_factory=list)
    rates: set[int] = field(default_factory=set)
    first: float = 0.0  # time.perf_counter() at the first sound

    def send(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def reply(self) -> list[str]:
        """The lines of the next answer or event. Of sound, only the samples are kept."""
        assert self.process.stdout
        lines: list[str] = []
        while line := self.process.stdout.readline():
            if line.startswith(b"705-AUDIO\0"):
                self.first = self.first or time.perf_counter()
                self.sounds.append(unescaped(line[10:-1]))
                continue
            text = line.decode().removesuffix("\n")
            if text.startswith("705-sample_rate="):
                self.rates.add(int(text.partition("=")[2]))
            lines.append(text)
            if text[3:4] == " ":
                return lines
        return lines

    def ask(self, text: str) -> str:
        self.send(text)
        return self.reply()[-1]

    def start(self) -> None:
        assert self.ask("INIT\n").startswith("299")
        assert self.ask("AUDIO\n").startswith("207")
        assert self.ask("audio_output_method=server\n.\n").startswith("203")
        assert self.ask("LOGLEVEL\n").startswith("207")
        assert self.ask("log_level=3\n.\n").startswith("203")

    def begin(self, text: str, kind: str = "SPEAK", **settings: str) -> str:
        """Send a message and return the answer to it."""
        values = "".join(f"{name}={value}\n" for name, value in (USUAL | settings).items())
        assert self.ask("SET\n").startswith("203")
        assert self.ask(values + ".\n") == "203 OK SETTINGS RECEIVED"
        assert self.ask(f"{kind}\n").startswith("202")
        self.sounds, self.first = [], 0.0
        return self.ask(f"{text}\n.\n")

    def events(self) -> list[str]:
        """Those up to the last of a message, but for sound. Marks are their names."""
        found: list[str] = []
        while not found or found[-1][:3] not in LAST:
            event = self.reply()
            assert event, "the module has ended"
            if not event[-1].startswith("705"):
                found.append(event[0][4:] if event[-1].startswith("700") else event[-1])
        return found

    def speak(self, text: str, kind: str = "SPEAK", **settings: str) -> list[str]:
        assert self.begin(text, kind, **settings) == "200 OK SPEAKING"
        return self.events()

    @property
    def samples(self) -> bytes:
        return b"".join(self.sounds)


def unescaped(data: bytes) -> bytes:
    parts = data.split(b"\x7d")
    return parts[0] + b"".join(bytes([part[0] ^ 0x20]) + part[1:] for part in parts[1:])


@contextmanager
def module(folder: Path, url: str, *lines: str, command: tuple[str, ...] = MODULE) -> Iterator[Driver]:
    configuration = folder / "kokoro.conf"
    configuration.write_text("\n".join([f'Url "{url}"', *lines]))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, str(configuration)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
    try:
        yield Driver(process)
    finally:
        process.kill()
        process.wait()
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        process.stdout.close()


@dataclass
class SmallServer:
    """Answers like a Kokoro Server, at once: a tenth of a second of sound for each word."""

    url: str = ""
    bodies: list[dict[str, object]] = field(default_factory=list)
    connections: int = 0
    refusal: tuple[int, str] | None = None
    hang: threading.Event = field(default_factory=threading.Event)  # set: sound stops after the first word
    words: queue.Queue[None] | None = None  # one is taken for each word
    left: queue.Queue[float] = field(default_factory=queue.Queue)  # when a client went away in the middle

    @property
    def last(self) -> dict[str, object]:
        return self.bodies[-1]


SAMPLES = bytes([0x0A, 0x7D, 0x5D, 0x01]) * 1_200  # a tenth of a second with all that must be escaped
VOICES = [
    {"name": "af_bella", "language": "en-US", "gender": "female", "grade": "A-", "installed": True},
    {"name": "af_heart", "language": "en-US", "gender": "female", "grade": "A", "installed": True},
    {"name": "am_adam", "language": "en-US", "gender": "male", "grade": "F+", "installed": True},
    {"name": "am_fenrir", "language": "en-US", "gender": "male", "grade": "C+", "installed": True},
    {"name": "bf_emma", "language": "en-GB", "gender": "female", "grade": "B-", "installed": True},
    {"name": "ff_siwis", "language": "fr-FR", "gender": "female", "grade": "B-", "installed": True},
    {"name": "jf_alpha", "language": "ja", "gender": "female", "grade": "C+", "installed": False},
]
NAMES = {"!": "exclamation mark", ",": "comma", "(": "open bracket", ")": "close bracket", ".": "dot", "$": "dollar"}


@contextmanager
def small_server() -> Iterator[SmallServer]:
    state = SmallServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            state.connections += 1
            super().setup()

        def do_GET(self) -> None:
            self._json(200, {"default": "af_heart", "voices": VOICES})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/text/reading":
                words = NAMES.get(body["text"], "")
                self._json(200, {"readings": [{"words": words}] if words else []})
                return
            state.bodies.append(body)
            if state.refusal:
                self._json(state.refusal[0], {"error": {"code": state.refusal[1], "message": "No."}})
                return
            self._speak(str(body["text"]))

        def _speak(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                at = 0
                for number, word in enumerate(text.split()):
                    if state.words:
                        state.words.get()
                    at = text.index(word, at)
                    times = [{"start": number / 10, "char_start": at}]
                    at += len(word)
                    self._event({"type": "audio", "audio": b64encode(SAMPLES).decode(), "words": times})
                    if state.hang.is_set():
                        self.connection.recv(1)
                        state.left.put(time.perf_counter())
                        return
                self._event({"type": "done", "duration": 1.0, "skipped": 0})
                self.wfile.write(b"0\r\n\r\n")
            except OSError:
                state.left.put(time.perf_counter())

        def _event(self, event: dict[str, object]) -> None:
            line = json.dumps(event).encode() + b"\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

        def _json(self, status: int, value: object) -> None:
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield state
        finally:
            server.shutdown()
