"""The kinds of values that settings have, each with the words for what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidatorFunctionWrapHandler, WrapValidator

from kokoro_server.config import access
from kokoro_server.config.access import ApiKey
from kokoro_server.errors import ConfigError


def kind(parse: Callable[[str], Any], allowed: str) -> WrapValidator:
    """A validator: `parse` makes a value of a variable's text, `allowed` says what is valid. Others stay as given."""

    def validate(value: Any, check_type: ValidatorFunctionWrapHandler) -> Any:
        try:
            return check_type(parse(value) if isinstance(value, str) else value)
        except (ValueError, KeyError):
            raise ValueError(allowed) from None

    return WrapValidator(validate)


def _within(low: float, high: float, value: float) -> float:
    if not low <= value <= high:  # also refuses NaN
        raise ValueError
    return value


def integer(low: int, high: int) -> WrapValidator:
    return kind(lambda text: _within(low, high, int(text)), f"a whole number from {low} to {high}")


def number(low: float, high: float) -> WrapValidator:
    return kind(lambda text: _within(low, high, float(text)), f"a number from {low:g} to {high:g}")


def choice(*values: str) -> WrapValidator:
    def parse(text: str) -> str:
        value = text.lower()
        if value not in values:
            raise ValueError
        return value

    return kind(parse, "one of " + ", ".join(values))


def _boolean(text: str) -> bool:
    value = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    return value[text.lower()]


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError
    _ = parts.port  # raises on a port that is no number
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
        raise ConfigError(f"API_KEYS: {error}") from None  # unlike other errors it must not show the value


Flag = Annotated[bool, kind(_boolean, "true or false")]
SettingText = Annotated[str, kind(str, "text")]
FilePath = Annotated[Path, kind(lambda text: Path(text).expanduser(), "a path")]
Url = Annotated[str, kind(_url, "a URL such as http://127.0.0.1:5000")]
DeviceName = Annotated[str, kind(_device, "one of auto, cpu, cuda, cuda:<number>, mps")]
DeviceNames = Annotated[
    tuple[str, ...], kind(_devices, "GPU numbers such as 0,1 or device names such as cuda:0,cuda:1")
]
Port = Annotated[int, integer(0, 65535)]
Keys = Annotated[tuple[ApiKey, ...], kind(_keys, "name=key pairs")]
Secret = Annotated[SecretStr, kind(SecretStr, "text")]
AllowedOrigins = Annotated[
    tuple[str, ...], kind(access.parse_origins, "origins such as https://example.org,http://localhost:3000, or *")
]
Hosts = Annotated[tuple[str, ...], kind(access.parse_hosts, "names of hosts such as speech.example.org,*.lan, or *")]
