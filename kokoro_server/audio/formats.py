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
    # Samples of silence that encoder and decoder together put before the first one, where the file cannot say so.
    delay: int = 0
    stream_delay: int = 0


MPEG_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
ENCODINGS: dict[Format, Encoding] = {
    "wav": Encoding("audio/wav"),
    "pcm": Encoding("audio/pcm"),
    # LAME delays by 576 samples and every decoder by 529; the header of a whole file says so.
    "mp3": Encoding("audio/mpeg", "MP3", "MPEG_LAYER_III", MPEG_RATES, stream_delay=576 + 529),
    "opus": Encoding("audio/ogg", "OGG", "OPUS", (8_000, 12_000, 16_000, 24_000, 48_000), (".ogg",)),
    "flac": Encoding("audio/flac", "FLAC", "PCM_16"),
    # A frame. ADTS has no header for the whole file.
    "aac": Encoding("audio/aac", rates=MPEG_RATES, delay=1024, stream_delay=1024),
}
CONTAINERS = "opus comes in Ogg, aac in ADTS"  # for descriptions: where the name of the format does not say it
SUFFIXES: dict[str, Format] = {
    suffix: name for name, encoding in ENCODINGS.items() for suffix in (f".{name}", *encoding.suffixes)
}
