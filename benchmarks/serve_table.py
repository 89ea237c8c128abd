"""Writes `data/conversions.json`, from which `serve_targets` answers as the G2P service would. Needs the real one.

python -m benchmarks.serve_table
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from benchmarks.serve_bench import LANGUAGES, texts
from benchmarks.serve_targets import TABLE
from kokoro_server.g2p.converter import Converter
from kokoro_server.g2p.languages import Language
from kokoro_server.g2p.languages import parse as language_of
from kokoro_server.g2p.result import G2PResult
from kokoro_server.text.pieces import PieceSizes
from kokoro_server.text.reader import Reader


class Recorder:
    """G2P for a Reader that keeps what it answers, in the form of `g2p.schemas.Conversion`."""

    def __init__(self) -> None:
        self._converter = Converter()
        self.answers: dict[str, Any] = {}

    async def convert(self, texts: Sequence[str], language: Language, /) -> list[G2PResult]:
        found = [await self._converter.convert(text, language) for text in texts]
        for text, spoken in zip(texts, found, strict=True):
            tokens = [{"text": t.text, "whitespace": t.whitespace, "phonemes": t.phonemes} for t in spoken.tokens or ()]
            self.answers[text] = {"phonemes": spoken.phonemes, "lang": language.code, "tokens": tokens, "dropped": []}
        return found


async def record(code: str) -> dict[str, Any]:
    recorder, language = Recorder(), language_of(code)
    reader = Reader(recorder, PieceSizes())
    for text in texts():
        async for _ in reader.pieces(text, language):
            pass
        await recorder.convert([text], language)  # the server that takes one at a time does not split
    return recorder.answers


def main() -> None:
    table = {code: asyncio.run(record(code)) for code in LANGUAGES}
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(json.dumps(table, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
