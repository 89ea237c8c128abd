"""The servers that `serve_bench` measures, each a process of its own.

    python -m benchmarks.serving.targets double|one-at-a-time [--model real|tiny]

`double` is the real application with an engine that only takes the time that an H200 takes. `one-at-a-time` is a server
of the usual kind: FastAPI around `kokoro.KModel`, one call at a time, in a thread, behind a lock. Its G2P is the same
service, at G2P_SERVICE_URL.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from numpy.typing import NDArray

from benchmarks import common
from kokoro_server import languages
from kokoro_server.api.compat.openai.schemas import OpenAISpeechRequest
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.audio.encode import Output, encode
from kokoro_server.audio.wav import header, pcm16
from kokoro_server.config.settings import Settings
from kokoro_server.engine import vocab
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, EngineLimits, Pcm16, Result, Row
from kokoro_server.g2p.client import G2PClient
from kokoro_server.observability import logs
from kokoro_server.runtime import sockets as listening
from kokoro_server.runtime.event_loop import run_on_loop
from kokoro_server.server import serving
from kokoro_server.server.app import create_app
from kokoro_server.voices import VoiceBook

DOUBLE_SECONDS = (
    0.0041,
    4.25e-6,
)  # a batch on an H200, and each frame of `EngineLimits.cost`: fitted to engine_cuda.json
DOUBLE_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # rows that it computes with


class Double:
    """An engine that takes the time an H200 would and gives a hum of the right length."""

    device = "double"
    limits = EngineLimits(
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


def load_double(scratch: Path) -> LoadedModel:
    from tests import tiny

    return LoadedModel((Double(),), ModelFacts(tiny.write_voices(scratch), "none", "double"))


def plain_model(model: str, settings: Settings, scratch: Path) -> tuple[Any, VoiceBook]:
    """`kokoro.KModel` as it is, on the device the server would use, and the voices."""
    from kokoro_server.engine.devices import pick_device
    from kokoro_server.engine.model import reference
    from tests import tiny as tiny_voices
    from tests import tiny_model

    if model == "real":
        weights, voices = common.find(None, None)
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
    g2p = G2PClient(g2p_url, timeout=60)

    async def audio(wanted: TTSRequest) -> np.ndarray[Any, Any]:
        [spoken] = await g2p.convert([wanted.text or ""], languages.of_voice(wanted.voice))
        async with one:
            return await asyncio.to_thread(speak, model, voices, spoken.phonemes, wanted.voice, wanted.speed)

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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("server", choices=("double", "one-at-a-time"))
    parser.add_argument("--model", choices=("real", "tiny"), default="real")
    options = parser.parse_args()
    settings = Settings.load(dotenv=None)
    logs.configure(settings.log_level)
    with tempfile.TemporaryDirectory() as folder:
        if options.server == "double":
            run_on_loop(serving.serve(create_app(settings, load=lambda _: load_double(Path(folder))), settings))
        else:
            _serve(one_at_a_time(*plain_model(options.model, settings, Path(folder)), settings.g2p_url or ""), settings)


def _serve(app: FastAPI, settings: Settings) -> None:
    with listening.bind(settings.host, settings.port) as sock:
        config = uvicorn.Config(app, log_config=None, access_log=False)
        sock.listen(1024)
        logging.getLogger(__name__).warning("Server is ready at http://%s:%d", *sock.getsockname()[:2])
        uvicorn.Server(config).run(sockets=[sock])


if __name__ == "__main__":
    main()
