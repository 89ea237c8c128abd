"""The audio formats and their names. The command line lists them, so nothing slow, such as numpy, is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Format = Literal["wav", "pcm", "mp3", "opus", "flac", "aac"]
FORMATS: tuple[Format, ...] = get_args(Format)


@dataclass(frozen=True, slots=True)
class Encoding:
    """The names of a format, and the sample rates that it can hold (empty: all)."""

    media_type: str
    container: str = ""  # libsndfile's names
    subtype: str = ""
    rates: tuple[int, ...] = ()
    suffixes: tuple[str, ...] = ()  # of files that `say` writes, beside the format's name


MPEG_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
ENCODINGS: dict[Format, Encoding] = {
    "wav": Encoding("audio/wav"),
    "pcm": Encoding("audio/pcm"),
    "mp3": Encoding("audio/mpeg", "MP3", "MPEG_LAYER_III", MPEG_RATES),
    "opus": Encoding("audio/ogg", "OGG", "OPUS", (8_000, 12_000, 16_000, 24_000, 48_000), (".ogg",)),
    "flac": Encoding("audio/flac", "FLAC", "PCM_16"),
    "aac": Encoding("audio/aac", rates=MPEG_RATES),
}
CONTAINERS = "opus comes in Ogg, aac in ADTS"  # for descriptions: where the name of the format does not say it
SUFFIXES: dict[str, Format] = {
    suffix: name for name, encoding in ENCODINGS.items() for suffix in (f".{name}", *encoding.suffixes)
}
