"""What a server shows of its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kokoro_server.config.settings import Settings
from kokoro_server.config.sources import names_of

# Keys of `GET /config`, which clients may rely on, by the newer names of the settings.
CONFIG_KEYS = {
    "MAX_CLIPS_PER_REQUEST": "MAX_BATCH_SIZE",
    "MAX_ROWS_PER_PASS": "KOKORO_MAX_BATCH_SIZE",
    "MAX_TOKENS_PER_PASS": "MAX_BATCH_TEXT_LENGTH",
    "BULK_QUEUE_TIMEOUT": "JOB_TIMEOUT",
    "KOKORO_GPU_PRECISION": "KOKORO_PRECISION",
}


def public(settings: Settings) -> dict[str, Any]:
    """The settings as `GET /config` shows them: without credentials, and of paths only the last part."""
    shown: dict[str, Any] = {}
    for key, field in type(settings).model_fields.items():
        value, name = getattr(settings, key), names_of(field)[0]
        shown[CONFIG_KEYS.get(name, name)] = value.name if isinstance(value, Path) else value
    shown["API_KEYS"] = [key.name for key in settings.api_keys]
    del shown["KOKORO_API_KEY"]
    if settings.g2p_url:
        shown["G2P_SERVICE_URL"] = without_credentials(settings.g2p_url)
    return shown


def without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
