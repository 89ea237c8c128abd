"""What the engine itself makes of the sentences that servers are asked for: full batches, with nothing around it.

`measure` loads a model: call it in a process that ends before a server starts.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.serving.prose import sentence
from benchmarks.serving.targets import load_double
from kokoro_server import languages
from kokoro_server.config.settings import Settings
from kokoro_server.engine import loader, vocab
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import SAMPLE_RATE, Engine, Row
from kokoro_server.g2p.client import G2PClient
from kokoro_server.voices import VoiceBook
from tests.services import tiny

PACKED_FROM = 512  # rows of which those of about one length share a batch, as in the queue of a bulk run
TEXTS_PER_CALL = 32


def measure(
    model: str, voices: Sequence[str], sentences: int, seconds: float, environ: Mapping[str, str]
) -> dict[str, Any]:
    """The first so many sentences again and again, for so many seconds after as many that do not count.

    `environ` has G2P_SERVICE_URL, and the settings of the server.
    """
    settings = Settings.load(dict(environ), dotenv=None)
    with tempfile.TemporaryDirectory() as folder:
        loaded = _load(model, settings, Path(folder))
        loaded.measure()
        rows = asyncio.run(_rows(loaded, voices, sentences, settings.g2p_url or ""))
    batches = packed(rows, loaded.engines[0].limits.max_rows)
    _speed(loaded.engines, batches, seconds)  # what is recorded for new shapes is so by then
    speed = _speed(loaded.engines, batches, seconds)
    return {"audio_per_second": round(speed, 1), "rows": len(rows), "rows_of_a_batch": len(batches[0])}


def _load(model: str, settings: Settings, folder: Path) -> LoadedModel:
    if model == "double":
        return load_double(folder)
    return loader.load(settings) if model == "real" else tiny.load(settings, str(folder))


async def _rows(model: LoadedModel, voices: Sequence[str], sentences: int, url: str) -> list[Row]:
    """As bulk asks for them: each with its voice."""
    g2p, rows = G2PClient(url, timeout=60), list[Row]()
    book = VoiceBook(model.facts.voices)
    try:
        for number, voice in enumerate(voices):
            texts = [sentence(each) for each in range(number, sentences, len(voices))]
            for start in range(0, len(texts), TEXTS_PER_CALL):
                read = await g2p.convert(texts[start : start + TEXTS_PER_CALL], languages.of_voice(voice))
                spoken = [vocab.tokenize(each.phonemes) for each in read]
                rows += [Row(tokens, book.style(voice, len(tokens)), 1.0, 0.0, 0) for tokens in spoken]
    finally:
        await g2p.aclose()
    return rows


def packed(rows: Sequence[Row], size: int) -> list[list[Row]]:
    """Full batches of rows of about one length."""
    batches = list[list[Row]]()
    for start in range(0, len(rows), PACKED_FROM):
        near = sorted(rows[start : start + PACKED_FROM], key=lambda row: len(row.tokens))
        batches += [near[first : first + size] for first in range(0, len(near) - size + 1, size)]
    return batches or [list(rows)]


def _speed(engines: Sequence[Engine], batches: Sequence[list[Row]], seconds: float) -> float:
    """Seconds of audio a second. Each device has as many calls at once as the queue gives it."""
    turns, taking, made = itertools.cycle(batches), threading.Lock(), list[tuple[float, int]]()
    started = time.perf_counter()

    def work(engine: Engine) -> None:
        while time.perf_counter() < started + seconds:
            with taking:
                batch = next(turns)
            samples = sum(len(result.audio) for result in engine.synthesize(batch))
            made.append((time.perf_counter(), samples))

    threads = [threading.Thread(target=work, args=(engine,)) for engine in _places(engines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(samples for _, samples in made) / SAMPLE_RATE / (max(made)[0] - started)


def _places(engines: Sequence[Engine]) -> Iterator[Engine]:
    for engine in engines:
        yield from [engine] * max(engine.limits.max_in_flight, engine.limits.parallel_calls)
