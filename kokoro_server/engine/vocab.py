"""The model's vocabulary: one id for each phoneme character. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

_CONFIG = Path(__file__).with_name("kokoro_config.json")


@cache
def config() -> dict[str, Any]:
    """The configuration of Kokoro-82M v1.0, with its vocabulary."""
    loaded: dict[str, Any] = json.loads(_CONFIG.read_text(encoding="utf-8"))
    return loaded


@cache
def ids() -> Mapping[str, int]:
    return MappingProxyType(config()["vocab"])


@cache
def size() -> int:
    """One more than the greatest id."""
    return max(ids().values()) + 1


def tokenize(phonemes: str) -> tuple[int, ...]:
    """The ids of `phonemes`. Like KModel, leaves out characters outside the vocabulary; see `unknown`."""
    known = ids()
    return tuple([known[character] for character in phonemes if character in known])


def unknown(phonemes: str) -> set[str]:
    """The characters of `phonemes` that the model has no id for."""
    return set(phonemes).difference(ids())
