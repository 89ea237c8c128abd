"""The real model through a real server, once on each backend: every kind of request, and the same speech each time."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from kokoro_server.assets.library import Assets
from kokoro_server.engine.protocol import SAMPLE_RATE
from tests import backends, servers
from tests.servers import ROOT, Server, assert_same_audio, say

pytestmark = [pytest.mark.real, pytest.mark.slow]

TEXT = "The birch canoe slid on the smooth planks. Glue it to the wall, if you can."
RAW = {"format": "pcm", "sample_format": "pcm_f32le"}


@pytest.fixture(scope="module", params=backends.TESTED)
def server(
    request: pytest.FixtureRequest, assets: Assets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("backend") / "log"
    # The size of the first piece is given so that a stream is cut like a clip, however fast the machine is.
    settings = {"QUEUE_TIMEOUT": "300", "ENGINE_TIMEOUT": "300", "FIRST_CHUNK_MAX_TOKENS": "50"}
    with servers.running(servers.REAL, log, KOKORO_BACKEND=request.param, KOKORO_DEVICE="cpu", **settings) as running:
        yield running


def heard(content: bytes) -> NDArray[np.float32]:
    audio, rate = soundfile.read(io.BytesIO(content), dtype="float32")
    assert rate == SAMPLE_RATE
    return np.asarray(audio)


def test_health_tells_the_backend(server: Server, request: pytest.FixtureRequest) -> None:
    found = httpx.get(f"{server.url}/health", timeout=60).json()
    assert found["backend"] == request.node.callspec.params["server"]
    assert found["device"] == "cpu"
    assert f"backend={found['backend']}" in server.lines()


def test_it_speaks_at_the_right_pace_and_level(server: Server) -> None:
    audio = heard(say(server, TEXT).content)
    assert 3.5 < len(audio) / SAMPLE_RATE < 6.0
    assert -32 < 20 * np.log10(audio.std()) < -18


def test_a_stream_and_a_batch_are_the_clip_and_seeds_differ(server: Server) -> None:
    fields = {"text": TEXT, "seed": 3, **RAW}
    clip = say(server, **fields).content
    streamed = httpx.post(f"{server.url}/tts/stream", json=fields, timeout=300).content
    zipped = httpx.post(f"{server.url}/tts/batch", json={"requests": [fields, {**fields, "seed": 4}]}, timeout=300)
    archive = zipfile.ZipFile(io.BytesIO(zipped.content))
    same, other = (archive.read(f"tts_00{number}_af_heart.pcm") for number in (1, 2))
    assert_same_audio(streamed, clip)
    assert_same_audio(same, clip)
    assert len(other) == len(clip)
    with pytest.raises(AssertionError):
        assert_same_audio(other, clip)


def test_pitch_leaves_the_timing_and_speed_changes_it(server: Server) -> None:
    plain = say(server, TEXT, **RAW).content
    assert len(say(server, TEXT, pitch=4, **RAW).content) == pytest.approx(len(plain), rel=0.01)
    assert len(say(server, TEXT, speed=2, **RAW).content) < 0.7 * len(plain)


def test_captions_follow_the_words(server: Server) -> None:
    answer = httpx.post(f"{server.url}/tts/captioned", json={"text": TEXT}, timeout=300).json()
    words = answer["words"]
    assert [word["text"] for word in words[:3]] == ["The", "birch", "canoe"]
    assert all(word["start"] < word["end"] for word in words)
    duration = len(heard(base64.b64decode(answer["audio"]))) / SAMPLE_RATE
    assert 0.7 * duration < words[-1]["end"] <= duration


WITHOUT_TORCH = """\
import asyncio, sys
BANNED = ("torch", "kokoro", "transformers")
for name in BANNED:
    sys.modules[name] = None  # as if it were not installed

import httpx
from kokoro_server.cli import doctor, main as command, say, voices
from kokoro_server.config.settings import Settings
from kokoro_server.server import app as application, serving

async def main():
    app = application.create_app(Settings.load({"KOKORO_CACHE_DIR": sys.argv[1]}, None))
    async with app.router.lifespan_context(app):
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test", timeout=300)
        answer = await client.post("/tts", json={"text": "Hello there.", "format": "mp3"})
        health = (await client.get("/health")).json()
    print(answer.status_code, len(answer.content) > 4000, health["backend"])

asyncio.run(main())
print(sorted({name.partition(".")[0] for name, module in sys.modules.items() if module} & set(BANNED)))
"""


def test_on_a_cpu_no_torch_is_needed(assets: Assets) -> None:
    cache = str(assets.voices.parent)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, cache], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines() == ["200 True onnx", "[]"], done.stderr
