"""Word lists and tables of `data/*.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from kokoro_server.runtime.json import JsonObject


@cache
def load(name: str) -> JsonObject:
    return tomllib.loads((Path(__file__).with_name("data") / f"{name}.toml").read_text(encoding="utf-8"))
