"""The fast path to a file gives the same bytes as the slow one, or None."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server.audio.encode import Output
from kokoro_server.audio.render import FAST_SAMPLES, Renderer, Rendering, render, render_fast
from kokoro_server.audio.wav import pcm16
from kokoro_server.engine.protocol import Audio, Pcm16


def speech(length: int = 30_000, peak: float = 0.6) -> Audio:
    audio = np.random.default_rng(0).uniform(-peak, peak, length).astype(np.float32)
    audio[length // 2] = peak
    return audio


@pytest.mark.parametrize("volume", [0.0, 3.0, -6.0])
@pytest.mark.parametrize("output", [Output("wav"), Output("pcm"), Output("wav", sample_format="pcm_f32le")])
def test_the_fast_path_gives_the_same(output: Output, volume: float) -> None:
    rendering = Rendering(output, volume)
    made = render_fast(speech(), rendering)
    assert made is not None
    assert made == b"".join(render(speech(), rendering))


@pytest.mark.parametrize("pieces", [1, 2, 5])
@pytest.mark.parametrize("peak", [0.6, 1.1])
def test_a_stream_on_the_fast_path_where_possible_is_the_same(pieces: int, peak: float) -> None:
    audio, rendering = speech(peak=peak), Rendering(Output("pcm"))
    renderer, data = Renderer(rendering), b""
    parts = np.array_split(audio, pieces)
    for number, part in enumerate(parts, 1):
        made = renderer.write_fast(part, last=number == pieces)
        if made is None:
            made = renderer.write(part) + (renderer.finish() if number == pieces else b"")
        data += made
    assert data == b"".join(render(audio, rendering))


@pytest.mark.parametrize(
    ("audio", "rendering"),
    [
        (speech(FAST_SAMPLES + 1), Rendering()),
        (speech(peak=1.1), Rendering()),
        (speech(), Rendering(volume=20.0)),
        (speech(), Rendering(Output("mp3"))),
        (speech(), Rendering(Output("wav", 16_000))),
        (np.full(1000, np.nan, np.float32), Rendering()),
        (np.zeros(0, np.float32), Rendering()),
    ],
)
def test_what_takes_longer_is_left_to_a_thread(audio: Audio, rendering: Rendering) -> None:
    assert render_fast(audio, rendering) is None
    renderer = Renderer(rendering)
    assert renderer.write_fast(audio) is None
    assert renderer.write_fast(audio, last=True) is None


def engine_pcm16(audio: Audio) -> Pcm16:
    return Pcm16(np.frombuffer(pcm16(audio), np.int16), float(np.abs(audio).max()))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("format", ["wav", "pcm"])
def test_the_engines_pcm16_gives_the_same(format: Literal["wav", "pcm"], streamed: bool) -> None:
    audio, rendering = speech(), Rendering(Output(format))
    silence = np.zeros_like(audio)
    made = render_fast(silence, rendering, pcm16=engine_pcm16(audio), streamed=streamed)
    assert made == render_fast(audio, rendering, streamed=streamed)


@pytest.mark.parametrize(
    ("peak", "rendering"),
    [
        (1.1, Rendering()),
        (float("nan"), Rendering()),
        (0.6, Rendering(volume=-6.0)),
        (0.6, Rendering(Output("wav", sample_format="pcm_f32le"))),
        (0.6, Rendering(Output("wav", 16_000))),
        (0.6, Rendering(Output("flac"))),
    ],
)
def test_the_engines_pcm16_is_not_used_where_something_else_is_wanted(peak: float, rendering: Rendering) -> None:
    audio = speech()
    unlike = Pcm16(np.zeros(len(audio), np.int16), peak)
    assert render_fast(audio, rendering, pcm16=unlike) == render_fast(audio, rendering)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1, 50, 300, 2_400, 40_000]), st.sampled_from([0.0, 0.6, 1.4])), min_size=1),
    st.sampled_from(["wav", "pcm"]),
)
def test_a_stream_is_the_same_with_the_engines_pcm16(
    parts: list[tuple[int, float]], format: Literal["wav", "pcm"]
) -> None:
    """Whatever their length, and after loud parts too, which the limiter lowers."""
    plain, ready = Renderer(Rendering(Output(format))), Renderer(Rendering(Output(format)))
    for number, (length, level) in enumerate(parts, 1):
        audio, last = speech(length, level), number == len(parts)
        expected = plain.write(audio) + (plain.finish() if last else b"")
        made = ready.write_fast(audio, pcm16=engine_pcm16(audio), last=last)
        assert (ready.write(audio) + (ready.finish() if last else b"") if made is None else made) == expected


def test_the_engines_pcm16_is_what_a_stream_sends() -> None:
    audio = speech()
    unlike = Pcm16(np.full(len(audio), 1234, np.int16), 0.6)
    renderer = Renderer(Rendering(Output("pcm")))
    sent = b"".join(renderer.write_fast(audio, pcm16=unlike, last=last) or b"" for last in (False, True))
    samples = np.frombuffer(sent, np.int16)
    assert len(samples) == 2 * len(audio)
    assert np.mean(samples == 1234) > 0.9
