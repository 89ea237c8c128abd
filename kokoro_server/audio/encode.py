"""Encodes audio in the format that the client asked for, whole or as a stream.

soundfile (libsndfile, LGPL) writes every compressed format but aac: it is fast, exact to the sample, and streams. PyAV
would write aac as well, but its wheels link x264 and x265, which are GPL; so only aac goes through PyAV, in a separate
process.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import IO, Literal

import soundfile

from kokoro_server.audio.encoders import (
    AacEncoder,
    Encoder,
    FileEncoder,
    Mp3StreamEncoder,
    OnTimeEncoder,
    PcmEncoder,
    SoundfileEncoder,
    SoundfileFileEncoder,
)
from kokoro_server.audio.formats import ENCODINGS, FORMATS, Format
from kokoro_server.audio.wav import PACK, SampleFormat, header, pcm16
from kokoro_server.engine.protocol import Audio
from kokoro_server.errors import FormatNotInstalled, InvalidInput

AAC_ADVICE = "pip install av"

# libsndfile takes a level of compression and computes the bit rate from it. These are the kilobits a second of each
# MPEG version, which depends on the sample rate; the first has level 1, the last level 0.
_MPEG1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MPEG2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_MPEG2_5 = (8, 16, 24, 32, 40, 48, 56, 64)
_OPUS = range(6_000, 256_001)
_HIGHEST_LEVEL = 0.9999  # libsndfile refuses 1 for mp3


@dataclass(frozen=True, slots=True)
class Output:
    """The audio format that a client asked for."""

    format: Format = "wav"
    sample_rate: int = 24_000
    sample_format: SampleFormat = "pcm_s16le"
    bit_rate: int | None = None  # bits a second, of mp3 and opus; None: libsndfile's default, in streams of mp3 ours

    @property
    def media_type(self) -> str:
        return ENCODINGS[self.format].media_type

    def check(self) -> None:
        if self.format == "aac" and not aac_is_installed():
            rest = " ".join(name for name in FORMATS if name != "aac")
            raise FormatNotInstalled(f"this server cannot write aac ({AAC_ADVICE}); it can: {rest}", field="format")
        rates = ENCODINGS[self.format].rates
        if rates and self.sample_rate not in rates:
            allowed = ", ".join(map(str, rates))
            raise InvalidInput(
                f"sample_rate {self.sample_rate} is not possible in {self.format}; allowed: {allowed}",
                field="sample_rate",
            )
        if self.sample_format != "pcm_s16le" and self.format not in ("wav", "pcm"):
            raise InvalidInput(f"sample_format is for wav and pcm, not {self.format}", field="sample_format")
        self._check_bit_rate()

    def _check_bit_rate(self) -> None:
        if self.bit_rate is None:
            return
        if self.format not in ("mp3", "opus"):
            raise InvalidInput(f"bit_rate is for mp3 and opus, not {self.format}", field="bit_rate")
        allowed = bit_rates(self.format, self.sample_rate)
        if self.bit_rate not in allowed:
            either = f"from {allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else str(allowed).strip("()")
            asked = f"bit_rate {self.bit_rate} is not possible in {self.format} at {self.sample_rate} Hz"
            raise InvalidInput(f"{asked}; allowed: {either}", field="bit_rate")


def bit_rates(format: Literal["mp3", "opus"], sample_rate: int) -> Sequence[int]:
    """The bit rates that a format allows."""
    if format == "opus":
        return _OPUS
    kilobits = _MPEG1 if sample_rate >= 32_000 else _MPEG2 if sample_rate >= 16_000 else _MPEG2_5
    return tuple(1000 * rate for rate in kilobits)


@cache
def aac_is_installed() -> bool:
    """False in images without GPL code."""
    return importlib.util.find_spec("av") is not None


def missing_formats() -> dict[Format, str]:
    """The formats that this installation lacks and every other writes, with advice for each."""
    known = soundfile.available_formats()
    return {
        name: "pip install -U soundfile"
        for name, encoding in ENCODINGS.items()
        if encoding.container and encoding.container not in known
    }


def encoder(output: Output) -> Encoder:
    """A streaming encoder. Lengths in headers stay unknown."""
    if output.format == "wav":
        return PcmEncoder(output.sample_format, header(output.sample_rate, output.sample_format, None))
    if output.format == "pcm":
        return PcmEncoder(output.sample_format)
    delay = ENCODINGS[output.format].stream_delay
    if output.format == "aac":
        return OnTimeEncoder(AacEncoder(output.sample_rate), delay)
    if output.format == "mp3":
        constant = replace(output, bit_rate=output.bit_rate or _stream_bit_rate(output.sample_rate))
        return OnTimeEncoder(Mp3StreamEncoder(lambda sink: _sound_file(sink, constant)), delay)
    return SoundfileEncoder(lambda sink: _sound_file(sink, output))


def _stream_bit_rate(sample_rate: int) -> int:
    """Of mp3, in bits a second. Players compute the length of a file without a header from a constant bit rate.

    These are the rates next to those that whole files of speech come to, whose bit rate varies.
    """
    return 64_000 if sample_rate >= 16_000 else 32_000


def file_encoder(output: Output, file: IO[bytes]) -> Encoder:
    """An encoder that writes to a file and returns nothing. Lengths in headers are right when it has finished."""
    if ENCODINGS[output.format].container:
        return SoundfileFileEncoder(lambda sink: _sound_file(sink, output), file)
    head = partial(header, output.sample_rate, output.sample_format) if output.format == "wav" else None
    return FileEncoder(encoder(output), file, head)


def _sound_file(sink: io.IOBase, output: Output) -> soundfile.SoundFile:
    encoding = ENCODINGS[output.format]
    options = {"format": encoding.container, "subtype": encoding.subtype, **_compression(output)}
    return soundfile.SoundFile(sink, "w", output.sample_rate, 1, **options)


def _compression(output: Output) -> dict[str, float | str]:
    """Constant bit rate in mp3, average bit rate in opus."""
    if output.bit_rate is None or output.format not in ("mp3", "opus"):
        return {}
    rates = bit_rates(output.format, output.sample_rate)
    lowest, highest = rates[0], rates[-1]
    level = (highest - output.bit_rate) / (highest - lowest)
    if output.format == "opus":
        return {"compression_level": level}
    return {"compression_level": min(level, _HIGHEST_LEVEL), "bitrate_mode": "CONSTANT"}


def encode(audio: Audio, output: Output) -> bytes:
    """A whole file, with its length in the header where the format has a field for it."""
    return b"".join(encode_parts((audio,), output))


def encode_parts(blocks: Iterable[Audio], output: Output) -> list[bytes]:
    """`encode` for audio in blocks. Returns the file in parts, to be sent one after another.

    The parts are not joined: a copy of some hundred megabytes would hold the GIL, and with it the event loop.
    """
    if ENCODINGS[output.format].container:
        buffer = io.BytesIO()
        with _sound_file(buffer, output) as file:
            for block in blocks:
                file.write(block)
        return [buffer.getvalue()]
    if output.format == "aac":
        with closing(encoder(output)) as aac:
            return [*(aac.write(block) for block in blocks), aac.finish()]
    parts = [PACK[output.sample_format](block) for block in blocks]
    if output.format == "wav":
        parts.insert(0, header(output.sample_rate, output.sample_format, sum(map(len, parts))))
    return parts


def encode_plain(audio: Audio, output: Output, *, in_range: bool = False, streamed: bool = False) -> bytes:
    """A whole wav or pcm file. `in_range`: no sample lies outside ±1. `streamed`: with the header of a stream."""
    is_pcm16 = output.sample_format == "pcm_s16le"
    data = pcm16(audio, in_range=in_range) if is_pcm16 else PACK[output.sample_format](audio)
    return with_header(data, output, streamed=streamed)


def with_header(data: bytes | memoryview, output: Output, *, streamed: bool = False) -> bytes:
    """A wav or pcm file from its encoded samples: wav has a header before them."""
    if output.format == "pcm":
        return bytes(data)
    size = None if streamed else memoryview(data).nbytes
    return b"".join([header(output.sample_rate, output.sample_format, size), data])
