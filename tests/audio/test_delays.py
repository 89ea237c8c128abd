"""When sounds are heard in each format, by decoders that are not the server's."""

from __future__ import annotations

import io
from typing import Literal

import av
import numpy as np
import pytest
import soundfile

from kokoro_server.audio.encode import Output, encode, encoder
from kokoro_server.audio.formats import ENCODINGS, FORMATS, Format
from kokoro_server.audio.render import Rendering
from kokoro_server.audio.sound import Sound
from kokoro_server.engine.protocol import Audio
from tests.audio_files import decode

RATE = 24_000
LEAD = 0.05  # seconds of silence before speech, as clips have it

Way = Literal["whole", "streamed"]
WAYS: tuple[Way, ...] = ("whole", "streamed")


def speech(lead: float, rate: int = RATE) -> Audio:
    """Syllables of noise below 3 kHz, which no shift can hide, after a silence such as the model's."""
    random = np.random.default_rng(3)
    samples = 2 * rate
    spectrum = np.fft.rfft(random.standard_normal(samples))
    frequencies = np.fft.rfftfreq(samples, 1 / rate)
    spectrum[(frequencies < 150) | (frequencies > 3000)] = 0
    syllables = np.clip(np.cos(2 * np.pi * 3 * np.arange(samples) / rate), 0.05, 1)
    sound = np.fft.irfft(spectrum, samples) * syllables
    quiet = 1e-4 * random.uniform(-1, 1, round(lead * rate))
    return np.concatenate([quiet, 0.3 * sound / np.abs(sound).max()]).astype(np.float32)


def written(audio: Audio, output: Output, way: Way, pieces: int = 7) -> bytes:
    if way == "whole":
        return encode(audio, output)
    stream = encoder(output)
    try:
        return b"".join(stream.write(part) for part in np.array_split(audio, pieces)) + stream.finish()
    finally:
        stream.close()


def offset(decoded: Audio, audio: Audio) -> int:
    """By how many samples the decoded audio is late."""
    size = 1 << (len(decoded) + len(audio)).bit_length()
    product = np.fft.rfft(decoded, size) * np.conj(np.fft.rfft(audio, size))
    place = int(np.argmax(np.fft.irfft(product, size)))
    return place if place < size // 2 else place - size


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", FORMATS)
def test_after_the_usual_silence_sounds_are_in_their_place(format: Format, way: Way) -> None:
    audio = speech(LEAD)
    assert offset(decode(written(audio, Output(format), way), format), audio) == 0


@pytest.mark.parametrize("pieces", [1, 100, 2000])
def test_it_does_not_matter_how_a_stream_is_divided(pieces: int) -> None:
    audio = speech(LEAD)
    assert offset(decode(written(audio, Output("mp3"), "streamed", pieces), "mp3"), audio) == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rate", [24_000, 8_000])
@pytest.mark.parametrize("format", ["mp3", "aac"])
def test_without_silence_they_are_as_late_as_is_said(format: Format, rate: int, way: Way) -> None:
    audio, output = speech(0.01, rate), Output(format, rate)
    data = written(audio, output, way)
    with av.open(io.BytesIO(data)) as container:
        decoded = np.concatenate([frame.to_ndarray().ravel() for frame in container.decode(audio=0)])
    at_24_khz = np.repeat(audio, RATE // rate)
    said = Rendering(output).start(Sound(at_24_khz), streamed=way == "streamed").late
    assert offset(decoded, audio) / rate == pytest.approx(said, abs=0.001)


def test_a_streamed_mp3_says_its_length_by_its_constant_bit_rate() -> None:
    data = written(speech(LEAD), Output("mp3"), "streamed")
    with av.open(io.BytesIO(data)) as container:
        assert container.duration is not None
        by_ffmpeg = container.duration / 1e6
    by_mpg123 = soundfile.info(io.BytesIO(data)).duration
    for seconds in (by_ffmpeg, by_mpg123):
        assert 2 + LEAD <= seconds <= 2 + LEAD + 2 * 576 / RATE
    assert b"Xing" not in data
    assert b"Info" not in data


def test_another_decoder_hears_a_streamed_mp3_at_the_same_time() -> None:
    audio = speech(LEAD)
    decoded, _ = soundfile.read(io.BytesIO(written(audio, Output("mp3"), "streamed")), dtype="float32")
    assert offset(decoded, audio) == 0


@pytest.mark.parametrize("samples", [1, 600, 1500, 12_000])
@pytest.mark.parametrize("format", ["mp3", "aac"])
def test_silence_is_as_long_as_it_was(format: Format, samples: int) -> None:
    delay = ENCODINGS[format].stream_delay
    decoded = decode(written(np.zeros(samples, np.float32), Output(format), "streamed", pieces=3), format)
    assert samples <= len(decoded) <= samples + delay + 2 * 1024
    assert not np.abs(decoded).max() > 1e-4
