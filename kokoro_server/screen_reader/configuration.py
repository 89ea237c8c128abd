"""The file `kokoro.conf`: lines of a name and a value in quotation marks, as in Speech Dispatcher's own files."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from urllib.parse import urlsplit

URL = "http://127.0.0.1:8880"
API_KEY_VARIABLE = "KOKORO_API_KEY"


class ConfigurationError(Exception):
    """A mistake in the file. The message names the line."""


@dataclass(frozen=True, slots=True)
class Configuration:
    url: str = URL
    voice: str = ""  # of messages that ask for none; empty: the server's default
    api_key: str = ""  # empty: KOKORO_API_KEY of the environment
    fallback: str = "espeak-ng"  # the program that speaks while the server cannot; empty: none

    @classmethod
    def read(cls, path: Path | None) -> Configuration:
        """The settings of a file; those that it does not name, or all without a file, have their defaults."""
        found = cls()
        if path and path.is_file():
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if line.strip() and not line.lstrip().startswith("#"):
                    found = found._with(line.strip(), f"{path}, line {number}")
        found._check(path)
        return found if found.api_key else replace(found, api_key=os.environ.get(API_KEY_VARIABLE, "").strip())

    def _with(self, line: str, place: str) -> Configuration:
        name, _, value = line.partition(" ")
        known = {field.name.replace("_", ""): field.name for field in fields(self)}
        if name.lower() not in known:
            raise ConfigurationError(f"{place}: unknown name {name[:40]!r}; known are {', '.join(known)}")
        value = value.strip()
        if len(value) < 2 or value[0] != '"' or value[-1] != '"':
            raise ConfigurationError(f'{place}: the value of {name} must be in quotation marks: {name} "..."')
        return replace(self, **{known[name.lower()]: value[1:-1]})

    def _check(self, path: Path | None) -> None:
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good:
            raise ConfigurationError(f"{path}: Url {self.url[:100]!r} must be like {URL}")
        if not (self.api_key.isascii() and (not self.api_key or self.api_key.isprintable())):
            raise ConfigurationError(f"{path}: ApiKey holds characters that a key cannot have")

    def text(self) -> str:
        """The content of a file with these settings."""
        names = {"url": "Url", "voice": "Voice", "api_key": "ApiKey", "fallback": "Fallback"}
        default = Configuration()
        lines = [f'{names[field.name]} "{getattr(self, field.name)}"' for field in fields(self)]
        shown = [
            line if field.name == "url" or getattr(self, field.name) != getattr(default, field.name) else f"# {line}"
            for field, line in zip(fields(self), lines, strict=True)
        ]
        head = "# Kokoro Server's module of Speech Dispatcher, written by 'kokoro-server screen-reader install'.\n"
        return head + "\n".join(shown) + "\n"
