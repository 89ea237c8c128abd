"""ElevenLabs' names of formats, such as `mp3_44100_128`: a codec, a sample rate, and kilobits a second."""

from __future__ import annotations

import re

from kokoro_server.audio.encode import Output
from kokoro_server.audio.formats import Format
from kokoro_server.audio.resample import MAX_RATE, MIN_RATE
from kokoro_server.audio.wav import SampleFormat
from kokoro_server.config.defaults import speech_defaults
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import InvalidInput

DEFAULT = "mp3_44100_128"
_NAME = re.compile(r"(?P<codec>mp3|opus|pcm|wav|ulaw|alaw)_(?P<rate>\d{4,5})(?:_(?P<kilobits>\d{1,3}))?")
_FORMATS: dict[str, tuple[Format, SampleFormat]] = {
    "mp3": ("mp3", "pcm_s16le"),
    "opus": ("opus", "pcm_s16le"),
    "pcm": ("pcm", "pcm_s16le"),
    "wav": ("wav", "pcm_s16le"),
    "ulaw": ("pcm", "pcm_mulaw"),
    "alaw": ("pcm", "pcm_alaw"),
}


def parse(name: str | None) -> Output:
    """None: DEFAULT_FORMAT or DEFAULT. Raises InvalidInput for an unknown name, or a format that is not possible."""
    if name is None:
        format = speech_defaults.get().format
        return parse(DEFAULT) if format in (None, "mp3") else Output(format, SAMPLE_RATE)
    match = _NAME.fullmatch(name)
    if not match or not MIN_RATE <= int(match["rate"]) <= MAX_RATE:
        raise InvalidInput(
            f"unknown output_format {name[:40]!r}; use mp3_RATE_KBPS, opus_48000_KBPS, pcm_RATE, wav_RATE, ulaw_8000 "
            f"or alaw_8000, such as {DEFAULT}",
            field="output_format",
        )
    format, sample_format = _FORMATS[match["codec"]]
    bit_rate = int(match["kilobits"]) * 1000 if match["kilobits"] else None
    output = Output(format, int(match["rate"]), sample_format, bit_rate)
    try:
        output.check()
    except InvalidInput as error:
        raise InvalidInput(f"output_format {name}: {error.message}", field="output_format") from error
    return output
