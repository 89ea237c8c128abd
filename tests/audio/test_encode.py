"""Each format, decoded by another library than the one that wrote it."""

from __future__ import annotations

import io
import resource

import av
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from kokoro_server.audio.encode import Output, bit_rates, encode, encoder
from kokoro_server.audio.encoders import AacEncoder
from kokoro_server.audio.formats import ENCODINGS, FORMATS, Format
from kokoro_server.audio.wav import SampleFormat
from kokoro_server.errors import InvalidInput, Unavailable
from tests.audio_files import EXACT, EXTRA_SAMPLES, decode

RATE = 24_000


def tone(seconds: float = 2.3) -> NDArray[np.float32]:
    t = np.arange(int(seconds * RATE)) / RATE
    return (0.4 * np.sin(2 * np.pi * 440 * t)).astype(np.float32)


def best_match(decoded: NDArray[np.float32], audio: NDArray[np.float32]) -> float:
    """Correlation of the signal's middle with the decoded one, at the best lag."""
    probe = audio[RATE // 2 : RATE]
    window = decoded[: len(audio) + 5000]
    correlation = np.correlate(window, probe, "valid")
    place = int(np.argmax(correlation))
    found = window[place : place + len(probe)]
    return float(np.dot(found, probe) / np.sqrt(np.dot(found, found) * np.dot(probe, probe)))


@pytest.mark.parametrize("format", FORMATS)
def test_whole_file_decodes_to_what_went_in(format: Format) -> None:
    audio = tone()
    decoded = decode(encode(audio, Output(format)), format)
    assert len(decoded) - len(audio) in EXTRA_SAMPLES.get(format, EXACT)
    assert best_match(decoded, audio) > 0.99


@pytest.mark.parametrize("format", FORMATS)
def test_stream_decodes_like_the_whole_file(format: Format) -> None:
    audio = tone()
    stream = encoder(Output(format))
    data = b"".join(stream.write(part) for part in np.array_split(audio, 7)) + stream.finish()
    decoded = decode(data, format)
    assert len(decoded) - len(audio) in EXTRA_SAMPLES.get(format, EXACT)
    assert best_match(decoded, audio) > 0.99


@pytest.mark.parametrize("sample_format", ["pcm_mulaw", "pcm_alaw"])
def test_telephony_samples_are_those_that_libsndfile_writes(sample_format: SampleFormat) -> None:
    audio = np.linspace(-1, 1, 65_535, dtype=np.float32)
    data = encode(audio, Output("pcm", 8_000, sample_format))
    theirs = io.BytesIO()
    samples = np.frombuffer(encode(audio, Output("pcm")), "<i2")
    subtype = {"pcm_mulaw": "ULAW", "pcm_alaw": "ALAW"}[sample_format]
    soundfile.write(theirs, samples, 8_000, format="RAW", subtype=subtype)
    decoded, expected = (
        soundfile.read(io.BytesIO(raw), samplerate=8_000, channels=1, format="RAW", subtype=subtype, dtype="int16")[0]
        for raw in (data, theirs.getvalue())
    )
    assert np.abs(decoded.astype(int) - samples).max() <= 1_024
    assert (decoded == expected).mean() > 0.98  # they round differently at the edge of a step
    heard, rate = soundfile.read(io.BytesIO(encode(audio, Output("wav", 8_000, sample_format))), dtype="int16")
    assert rate == 8_000
    assert np.array_equal(heard, decoded)


@pytest.mark.parametrize("format", [name for name in FORMATS if name != "aac"])  # which another process writes
def test_stream_gives_bytes_as_it_goes(format: Format) -> None:
    noise = 0.1 * np.random.default_rng(0).standard_normal(int(1.5 * RATE), np.float32)  # a tone compresses to nothing
    stream = encoder(Output(format))
    sizes = [len(stream.write(noise)) for _ in range(4)]
    assert all(size > 500 for size in sizes)


def test_whole_wav_tells_its_length_and_a_streamed_one_opens_all_the_same() -> None:
    audio = tone()
    whole = soundfile.info(io.BytesIO(encode(audio, Output("wav"))))
    assert (whole.frames, whole.samplerate, whole.channels, whole.subtype) == (len(audio), RATE, 1, "PCM_16")
    stream = encoder(Output("wav"))
    data = stream.write(audio[:1000]) + stream.write(audio[1000:]) + stream.finish()
    read, _ = soundfile.read(io.BytesIO(data))
    assert len(read) == len(audio)


def test_float_samples_come_back_bit_for_bit() -> None:
    audio = tone()
    read, _ = soundfile.read(io.BytesIO(encode(audio, Output("wav", sample_format="pcm_f32le"))), dtype="float32")
    assert np.array_equal(read, audio)
    assert encode(audio, Output("pcm", sample_format="pcm_f32le")) == audio.astype("<f4").tobytes()


def test_samples_over_full_scale_are_clipped_not_wrapped() -> None:
    loud = np.array([2.0, -2.0, 1.0, -1.0, 0.0], np.float32)
    assert np.frombuffer(encode(loud, Output("pcm")), "<i2").tolist() == [32767, -32767, 32767, -32767, 0]


@pytest.mark.parametrize("format", FORMATS)
def test_every_named_rate_works(format: Format) -> None:
    for rate in ENCODINGS[format].rates or (8_000, 44_100):
        assert encode(np.zeros(rate // 4, np.float32), Output(format, rate))


def test_rates_and_sample_formats_a_format_cannot_hold_are_refused() -> None:
    with pytest.raises(InvalidInput, match="8000, 12000, 16000, 24000, 48000"):
        Output("opus", 44_100).check()
    with pytest.raises(InvalidInput, match="sample_format is for wav and pcm"):
        Output("mp3", sample_format="pcm_f32le").check()


def test_a_dead_aac_encoder_is_an_error_not_a_short_file() -> None:
    stream = AacEncoder(RATE)
    stream.write(tone())
    stream._process.kill()
    with pytest.raises(Unavailable, match="aac encoder was killed"):
        stream.finish()


def test_an_aac_encoder_that_cannot_be_started_is_to_be_tried_again() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(Unavailable, match="Too many open files") as refusal:
            AacEncoder(RATE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert refusal.value.retry_after


BIT_RATES = [(rate, bits) for rate in (44_100, 24_000, 22_050, 8_000) for bits in bit_rates("mp3", rate)]


@pytest.mark.parametrize(("sample_rate", "bit_rate"), BIT_RATES)
def test_every_frame_of_an_mp3_has_the_bit_rate(sample_rate: int, bit_rate: int) -> None:
    output = Output("mp3", sample_rate, bit_rate=bit_rate)
    output.check()
    stream = encoder(output)
    streamed = stream.write(tone(0.5)) + stream.write(tone(0.5)) + stream.finish()
    for data in (encode(tone(0.5), output), streamed):
        with av.open(io.BytesIO(data)) as container:
            # The first frame holds no sound, and has room for a table at any bit rate.
            sizes = [packet.size for packet in container.demux(audio=0) if packet.size][1:]
            seconds = (1152 if sample_rate >= 32_000 else 576) / sample_rate
            assert container.streams.audio[0].sample_rate == sample_rate
        assert len(sizes) > 5
        assert {abs(8 * size / seconds - bit_rate) <= 8 / seconds for size in sizes} == {True}


@pytest.mark.parametrize("bit_rate", [32_000, 64_000, 128_000, 192_000])
def test_opus_has_the_bit_rate_on_average(bit_rate: int) -> None:
    noise = np.random.default_rng(0).normal(scale=0.1, size=4 * 48_000).astype(np.float32)
    data = encode(noise, Output("opus", 48_000, bit_rate=bit_rate))
    assert 8 * len(data) / 4 == pytest.approx(bit_rate, rel=0.1)


@pytest.mark.parametrize(
    ("output", "allowed"),
    [
        (Output("mp3", 44_100, bit_rate=33_000), "32000, 40000"),
        (Output("mp3", 22_050, bit_rate=192_000), "160000"),
        (Output("opus", 48_000, bit_rate=5_999), "from 6000 to 256000"),
        (Output("wav", bit_rate=128_000), "mp3 and opus"),
    ],
)
def test_a_bit_rate_that_is_not_possible_is_refused(output: Output, allowed: str) -> None:
    with pytest.raises(InvalidInput, match=allowed) as error:
        output.check()
    assert error.value.field == "bit_rate"
