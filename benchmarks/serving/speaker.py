"""What `listening_bench` says and how: texts, and clips of a server that is asked over HTTP."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import re
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from benchmarks import common, listening
from benchmarks.serving import started
from kokoro_server import languages
from kokoro_server.g2p.client import G2PClient
from kokoro_server.text.pieces import Piece, PieceSizes
from kokoro_server.text.reader import Reader
from kokoro_server.text.script import Delivery, Run
from kokoro_server.text.traced import Traced
from tests import servers
from tests.audio_files import decode

BOOK = common.ROOT / "tests" / "longform" / "books" / "fixtures" / "alice.html"
TEXTS = common.ROOT / "benchmarks" / "data" / "listening.toml"
PROSE_WORDS = 450  # at least, up to the end of a sentence
VOICE = "af_heart"  # of the server, unless another is asked for
SEED = 7
TIMEOUT = 3_600  # seconds; a busy machine can be slow
PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
NOT_TEXT = re.compile(r'<span class="pagenum">.*?</span>|<[^>]+>')
SENTENCE_END = re.compile(r'[.!?]["”)]*(?=\s)')


@dataclass(frozen=True)
class Spoken:
    """A clip, its words, and the first words of its pieces, but for the first piece."""

    audio: listening.Clip
    words: list[dict[str, Any]]
    joins: list[int]


class Speaker:
    """Clips of the server, which is started when the first is wanted that the folder does not have."""

    def __init__(self, folder: Path, voices: Sequence[str], words: int, before: str | None = None) -> None:
        self.voices = voices  # of the prose
        self.words = words
        self.before = before  # the URL of another server
        self._folder = folder
        self._open = ExitStack()

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @cached_property
    def url(self) -> str:
        logs = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
        environ = {"KOKORO_DEVICE": "cpu", "KOKORO_BACKEND": "onnx", "G2P_SERVICE_URL": self._g2p_url}
        return self._open.enter_context(started.running(servers.REAL, logs / "log", **environ)).url

    @cached_property
    def _g2p_url(self) -> str:
        logs = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
        return self._open.enter_context(started.g2p_service(logs / "log"))

    def facts(self) -> dict[str, Any]:
        """How the server computes, if one was started."""
        if "url" not in vars(self):
            return {}
        health = httpx.get(f"{self.url}/health").json()
        pace = httpx.get(f"{self.url}/health/streaming").json()["pace"]
        return {"server": {name: health[name] for name in ("backend", "device", "compute")} | {"pace": pace}}

    def post(self, path: str, accept: str = "*/*", **fields: Any) -> bytes:
        return post(f"{self.url}{path}", accept, **fields)

    def say(self, name: str, **fields: Any) -> listening.Clip:
        """A whole clip."""

        def make() -> list[listening.Clip]:
            return [decode(self.post("/tts", format="pcm", seed=SEED, **fields), "pcm")]

        return listening.once(self._folder / f"{name}.npz", make)[0]

    def hear(self, name: str) -> str:
        """What Whisper hears in a clip that was made."""
        return listening.heard(self._folder / f"{name}.npz")[0]

    def read(self, name: str, text: str, way: str, **fields: Any) -> Spoken:
        """A text with the times of its words."""
        path = self._folder / f"{name}_{way}.npz"
        beside = path.with_suffix(".json")
        if not beside.exists():
            body = {"text": text, "format": "pcm", "seed": SEED, **fields}
            pcm, words, joins = self.streamed(body) if way == "streamed" else self._whole(body)
            listening.keep(path, [decode(pcm, "pcm")])
            beside.write_text(json.dumps({"words": words, "joins": joins}), encoding="utf-8")
        return Spoken(listening.kept(path)[0], **json.loads(beside.read_text(encoding="utf-8")))

    def streamed(self, body: Mapping[str, Any]) -> tuple[bytes, list[dict[str, Any]], list[int]]:
        lines = self.post("/tts/captioned", "application/x-ndjson", **body).splitlines()
        *events, done = [json.loads(line) for line in lines]
        if done["type"] != "done":
            raise RuntimeError(done)
        words, joins = list[dict[str, Any]](), list[int]()
        for event in events:
            if words and event["words"]:
                joins.append(len(words))
            words += event["words"]
        return b"".join(base64.b64decode(event["audio"]) for event in events), words, joins

    def _whole(self, body: Mapping[str, Any]) -> tuple[bytes, list[dict[str, Any]], list[int]]:
        """The answer does not show the pieces: they are cut once more here, as the server cuts them."""
        answer = json.loads(self.post("/tts/captioned", **body))
        ends = asyncio.run(self._piece_ends(body))
        words = answer["words"]
        firsts = [next(i for i, word in enumerate(words) if word["char_start"] >= end) for end in ends]
        return base64.b64decode(answer["audio"]), words, firsts

    async def _piece_ends(self, body: Mapping[str, Any]) -> list[int]:
        """Where the pieces of a text end in it, but for the last."""
        run = Run(Traced.of(body["text"]), Delivery("", languages.of_voice(body.get("voice", VOICE))))
        client = G2PClient(self._g2p_url, timeout=60)
        try:
            pieces = Reader(client, PieceSizes()).script_pieces([run], apart="sentence" in body.get("pauses", {}))
            return [piece.end async for piece in pieces if isinstance(piece, Piece)][:-1]
        finally:
            await client.aclose()


def post(url: str, accept: str = "*/*", **fields: Any) -> bytes:
    answer = httpx.post(url, json=fields, headers={"Accept": accept}, timeout=TIMEOUT)
    answer.raise_for_status()
    return answer.content


def paragraphs() -> list[str]:
    found = PARAGRAPH.findall(BOOK.read_text(encoding="utf-8"))
    return [html.unescape(" ".join(NOT_TEXT.sub("", one).split())) for one in found]


def prose(words: int = PROSE_WORDS) -> str:
    """The beginning of the book, up to the end of the sentence with which there are enough words."""
    text = "\n\n".join(paragraphs())
    beginnings = (text[: end.end()] for end in SENTENCE_END.finditer(text))
    return next(beginning for beginning in beginnings if len(beginning.split()) >= words)


def texts(part: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(TEXTS.read_text(encoding="utf-8"))[part]
    return {name: text.strip() if isinstance(text, str) else text for name, text in found.items()}
