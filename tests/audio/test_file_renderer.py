"""A whole file that is written part by part is the one that is made at once."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from kokoro_server.audio.encode import Output
from kokoro_server.audio.render import Renderer, Rendering, render
from kokoro_server.audio.wav import header
from kokoro_server.engine.protocol import SAMPLE_RATE, Audio
from tests.audio_files import decode

SECONDS = 12
OUTPUTS = [
    Output("wav"),
    Output("wav", 48_000, "pcm_f32le"),
    Output("wav", 8_000, "pcm_mulaw"),
    Output("pcm", 16_000),
    Output("flac"),
    Output("mp3"),
    Output("mp3", 44_100, bit_rate=128_000),
    Output("opus"),
    Output("aac"),
]


def speech() -> Audio:
    """Loud in places, so that the limiter works."""
    random, time = np.random.default_rng(1), np.arange(SECONDS * SAMPLE_RATE) / SAMPLE_RATE
    tone = np.sin(2 * np.pi * 220 * time) * (0.6 + 0.6 * np.sin(2 * np.pi * 0.3 * time))
    return (tone + random.normal(scale=0.01, size=len(time))).astype(np.float32)


def written(audio: Audio, rendering: Rendering) -> bytes:
    with tempfile.TemporaryFile() as file:
        renderer = Renderer(rendering, file)
        for part in np.split(audio, [7, 1_000, 200_000, 200_001]):
            assert renderer.write_fast(part) is None
            assert renderer.write(part) == b""
        assert renderer.finish() == b""
        renderer.close()
        file.seek(0)
        return file.read()


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: f"{output.format}-{output.sample_rate}")
def test_it_is_the_same_file(output: Output) -> None:
    audio, rendering = speech(), Rendering(output, volume=2.0)
    expected, made = b"".join(render(audio, rendering)), written(audio, rendering)
    if output.format == "opus":  # each Ogg file has a random serial number
        assert np.array_equal(decode(made, "opus"), decode(expected, "opus"))
        assert len(made) == len(expected)
    else:
        assert made == expected


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux alone")
@pytest.mark.parametrize("format", ["wav", "flac", "mp3"])
def test_a_full_disk_is_an_error(format: str) -> None:
    with open("/dev/full", "r+b", buffering=0) as full:  # noqa: PTH123
        renderer = Renderer(Rendering(Output(format)), full)  # type: ignore[arg-type]
        with pytest.raises(OSError, match="No space left"):
            renderer.write(speech())


def test_a_header_that_cannot_say_the_length_says_none() -> None:
    assert header(48_000, "pcm_f32le", 5 << 30) == header(48_000, "pcm_f32le", None)
