"""The servers that `serve_bench` measures, each a process of its own.

    python -m benchmarks.serve_targets kokoro-server|one-at-a-time|g2p-table [--model real|tiny|double] ...

`kokoro-server` is the real application as `kokoro-server serve` runs it; only where its model comes from differs.
`one-at-a-time` is a server of the usual kind: FastAPI around `kokoro.KModel`, one call at a time, in a thread, behind
a lock. `g2p-table` answers as the G2P service does, from phonemes that the real one made before: it takes no time, so
that the speech server is what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from numpy.typing import NDArray

from benchmarks import common
from kokoro_server import logs, serving
from kokoro_server.api.openai_schemas import OpenAISpeechRequest
from kokoro_server.api.schemas import TTSRequest
from kokoro_server.app import create_app
from kokoro_server.audio.encode import Output, encode
from kokoro_server.audio.wav import header, pcm16
from kokoro_server.config import Settings
from kokoro_server.engine import vocab
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Limits, Pcm16, Result, Row
from kokoro_server.engine.voices import VoiceBook
from kokoro_server.g2p import languages

TABLE = common.ROOT / "benchmarks" / "data" / "conversions.json"
DOUBLE_SECONDS = (0.0041, 4.25e-6)  # a batch on an H200, and each frame of `Limits.cost`: fitted to engine_cuda.json
DOUBLE_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # rows that it computes with


class Double:
    """An engine that takes the time an H200 would and gives a hum of the right length."""

    device = "double"
    limits = Limits(
        max_tokens=510,
        max_rows=64,
        max_padded_frames=40_960,
        row_buckets=DOUBLE_ROWS,
        padding_weight=0.27,
        max_in_flight=2,
    )

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._hum = np.sin(np.arange(2_000 * SAMPLES_PER_FRAME) / 20, dtype=np.float32) * np.float32(0.3)
        self._pcm16 = np.frombuffer(pcm16(self._hum), np.int16)

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        durations = [np.array([10, *([2] * len(row.tokens)), 10]) for row in rows]
        frames = [int(lengths.sum()) for lengths in durations]
        fixed, per_frame = DOUBLE_SECONDS
        with self._turn:
            time.sleep(fixed + per_frame * self.limits.cost(len(rows), max(frames), sum(frames)))
        return [self._result(lengths) for lengths in durations]

    def _result(self, durations: NDArray[np.int64]) -> Result:
        samples = int(durations.sum()) * SAMPLES_PER_FRAME
        return Result(self._hum[:samples], durations, Pcm16(self._pcm16[:samples], 0.3))


def load(options: argparse.Namespace, settings: Settings, scratch: Path) -> LoadedModel:
    from kokoro_server.engine import devices
    from tests import tiny

    if options.model == "tiny":
        return tiny.load(scratch)
    if options.model == "double":
        return LoadedModel((Double(),), VoiceBook(tiny.write_voices(scratch)), "none", "double")
    weights, voices = common.find(options.weights, options.voices)
    cuda = devices.CudaOptions(settings.precision, settings.gpu_memory_fraction)
    engines = devices.load_all(weights, settings.devices or (settings.device,), cuda)
    for engine in engines:
        engine.warmup()
    return LoadedModel(tuple(engines), VoiceBook(voices), "fp32", "path")


def plain_model(options: argparse.Namespace, settings: Settings, scratch: Path) -> tuple[Any, VoiceBook]:
    """`kokoro.KModel` as it is, on the device the server would use, and the voices."""
    from kokoro_server.engine.devices import pick_device
    from kokoro_server.engine.model import reference
    from tests import tiny as tiny_voices
    from tests import tiny_model

    if options.model == "real":
        weights, voices = common.find(options.weights, options.voices)
        return reference.load(weights).to(pick_device(settings.device)), VoiceBook(voices)
    return tiny_model.build(), VoiceBook(tiny_voices.write_voices(scratch))


def speak(model: Any, voices: VoiceBook, phonemes: str, voice: str, speed: float = 1.0) -> np.ndarray[Any, Any]:
    """One call of the plain model, as `kokoro.KPipeline` makes it. Blocking."""
    import torch

    tokens = vocab.tokenize(phonemes)
    ids = torch.tensor([[0, *tokens, 0]], device=model.device)
    style = torch.tensor(voices.style(voice, len(tokens)), device=model.device)[None]
    audio, _ = model.forward_with_tokens(ids, style, speed)
    samples: np.ndarray[Any, Any] = audio.cpu().numpy()
    return samples


def one_at_a_time(model: Any, voices: VoiceBook, g2p_url: str) -> FastAPI:
    app = FastAPI()
    one = asyncio.Lock()
    http = httpx.AsyncClient(trust_env=False)

    async def audio(wanted: TTSRequest) -> np.ndarray[Any, Any]:
        phonemes = wanted.phonemes
        if phonemes is None:
            lang = wanted.language or languages.of_voice(wanted.voice).code
            answer = await http.post(f"{g2p_url}/convert/batch", json={"texts": [wanted.text], "lang": lang})
            phonemes = answer.raise_for_status().json()["results"][0]["phonemes"]
        async with one:
            return await asyncio.to_thread(speak, model, voices, phonemes, wanted.voice, wanted.speed)

    @app.post("/tts")
    async def tts(body: TTSRequest) -> Response:
        return Response(encode(await audio(body), Output()), media_type="audio/wav")

    @app.post("/tts/stream")
    async def stream(body: TTSRequest) -> Response:
        made = await audio(body)

        async def chunks() -> Any:
            yield header(24_000, "pcm_s16le", None)
            yield pcm16(made)

        return StreamingResponse(chunks(), media_type="audio/wav")

    @app.post("/v1/audio/speech")
    async def speech(body: OpenAISpeechRequest) -> Response:
        return await stream(body.to_tts_request())

    return app


def g2p_table() -> FastAPI:
    known = {
        (lang, text): json.dumps(conversion, ensure_ascii=False)
        for lang, texts in json.loads(TABLE.read_text(encoding="utf-8")).items()
        for text, conversion in texts.items()
    }
    app = FastAPI()

    @app.post("/convert/batch")
    async def convert(request: Request) -> Response:
        asked = await request.json()
        results = ",".join(known[asked["lang"], text] for text in asked["texts"])
        return Response(f'{{"results":[{results}]}}', media_type="application/json")

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("server", choices=("kokoro-server", "one-at-a-time", "g2p-table"))
    parser.add_argument("--model", choices=("real", "tiny", "double"), default="real")
    parser.add_argument("--weights", type=Path, help="a converted safetensors file; by default the cache's")
    parser.add_argument("--voices", type=Path, help="a folder of voice packs; by default the cache's")
    options = parser.parse_args()
    settings = Settings.load(dotenv=None)
    logs.configure(settings.log_level)
    with tempfile.TemporaryDirectory() as folder:
        if options.server == "kokoro-server":
            serving.run(create_app(settings, load=lambda s: load(options, s, Path(folder))), settings)
            return
        if options.server == "g2p-table":
            app = g2p_table()
        else:
            app = one_at_a_time(*plain_model(options, settings, Path(folder)), settings.g2p_url or "")
        _serve(app, settings)


def _serve(app: FastAPI, settings: Settings) -> None:
    with serving.bind(settings.host, settings.port) as sock:
        config = uvicorn.Config(app, log_config=None, access_log=False)
        sock.listen(1024)
        logging.getLogger(__name__).warning("is ready at http://%s:%d", *sock.getsockname()[:2])
        uvicorn.Server(config).run(sockets=[sock])


if __name__ == "__main__":
    main()
