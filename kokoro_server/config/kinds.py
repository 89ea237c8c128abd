"""The kinds of values that pydantic does not know, each with the words for what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator

from kokoro_server import languages
from kokoro_server.config import access
from kokoro_server.config.access import ApiKey
from kokoro_server.errors import ConfigError

PAUSE_NAMES = ("comma", "semicolon", "sentence", "paragraph")
LONGEST_PAUSE = 10.0  # seconds
ALL_LANGUAGES = ""  # in place of a code
AudioFormat = Literal["wav", "pcm", "mp3", "opus", "flac", "aac"]


def parsed(parse: Callable[[str], Any], allowed: str) -> BeforeValidator:
    """`parse` turns the text of a variable into a value. Its ValueError becomes one that says what is `allowed`."""

    def validate(value: Any) -> Any:
        try:
            return parse(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError(allowed) from None

    return BeforeValidator(validate)


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError
    _ = parts.port  # raises if the port is not a number
    return text.rstrip("/")


def _device(text: str) -> str:
    value = text.lower()
    name, _, index = value.partition(":")
    if name not in ("auto", "cpu", "cuda", "mps") or (index and not (name == "cuda" and index.isdigit())):
        raise ValueError
    return value


def _devices(text: str) -> tuple[str, ...]:
    names = [_device(f"cuda:{name}" if name.isdigit() else name) for name in map(str.strip, text.split(","))]
    if "auto" in names:
        raise ValueError
    return tuple("cuda:0" if name == "cuda" else name for name in names)


def _keys(text: str) -> tuple[ApiKey, ...]:
    try:
        return access.parse_keys(text)
    except ValueError as error:
        raise ConfigError(f"API_KEYS: {error}") from None  # unlike other errors, this one must not show the value


def _pauses(text: str) -> tuple[tuple[str, float], ...]:
    pauses: dict[str, float] = {}
    for each in text.split(","):
        name, _, seconds = (part.strip() for part in each.partition("="))
        pauses[name.lower()] = float(seconds)
    if not all(name in PAUSE_NAMES and 0 <= seconds <= LONGEST_PAUSE for name, seconds in pauses.items()):
        raise ValueError
    return tuple(pauses.items())


def _language(text: str) -> str:
    if languages.is_auto(text):
        return languages.AUTO
    if found := languages.find(text, languages.ALL):
        return found.code
    raise ValueError


def _voices(text: str) -> tuple[tuple[str, str], ...]:
    """By code. A part without a code goes on with the blend before it, which may have commas."""
    voices: dict[str, str] = {}
    code = ALL_LANGUAGES
    for part in map(str.strip, text.split(",")):
        name, separator, voice = (each.strip() for each in part.rpartition("="))
        if separator:
            code = _language(name)
        if not voice or (separator and (code in voices or code == languages.AUTO)):
            raise ValueError
        voices[code] = f"{voices[code]},{voice}" if code in voices else voice
    return tuple(voices.items())


FilePath = Annotated[Path, AfterValidator(Path.expanduser)]
Url = Annotated[str, parsed(_url, "a URL such as http://127.0.0.1:5000")]
DeviceName = Annotated[str, parsed(_device, "one of auto, cpu, cuda, cuda:<number>, mps")]
DeviceNames = Annotated[
    tuple[str, ...], parsed(_devices, "GPU numbers such as 0,1 or device names such as cuda:0,cuda:1")
]
Keys = Annotated[tuple[ApiKey, ...], parsed(_keys, "name=key pairs")]
KeyNames = Annotated[tuple[str, ...], parsed(access.parse_names, "names of keys such as alice,bob")]
AllowedOrigins = Annotated[
    tuple[str, ...], parsed(access.parse_origins, "origins such as https://example.org,http://localhost:3000, or *")
]
Hosts = Annotated[tuple[str, ...], parsed(access.parse_hosts, "host names such as speech.example.org,*.lan, or *")]
PauseSeconds = Annotated[
    tuple[tuple[str, float], ...],
    parsed(_pauses, "seconds from 0 to 10 for comma, semicolon, sentence, paragraph: sentence=0.5"),
]
DefaultVoices = Annotated[
    tuple[tuple[str, str], ...],
    parsed(
        _voices,
        "a voice such as af_bella, or one for each language such as en=af_bella,fr=ff_siwis; "
        f"languages are {languages.known_codes()}, and those of other models",
    ),
]
LanguageCode = Annotated[str, parsed(_language, f"auto or one of {languages.known_codes()}, and those of other models")]
Proxies = Annotated[tuple[str, ...], parsed(access.parse_proxies, "addresses such as 10.0.0.5,192.168.0.0/16, or *")]
