"""A model's vocabulary: one id for each phoneme character. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

_CONFIG = Path(__file__).with_name("kokoro_config.json")


@dataclass(frozen=True, slots=True, eq=False)
class ModelVocabulary:
    ids: Mapping[str, int]
    size: int  # one more than the greatest id that the model takes

    def tokenize(self, phonemes: str) -> tuple[int, ...]:
        """The ids of `phonemes`. Like KModel, leaves out characters outside the vocabulary; see `unknown`."""
        known = self.ids
        return tuple([known[character] for character in phonemes if character in known])

    def unknown(self, phonemes: str) -> set[str]:
        """The characters of `phonemes` that the model has no id for."""
        return set(phonemes).difference(self.ids)


@cache
def config() -> dict[str, Any]:
    """The configuration of Kokoro-82M v1.0, with its vocabulary."""
    loaded: dict[str, Any] = json.loads(_CONFIG.read_text(encoding="utf-8"))
    return loaded


@cache
def built_in() -> ModelVocabulary:
    """That of Kokoro-82M v1.0."""
    known = MappingProxyType(config()["vocab"])
    return ModelVocabulary(known, max(known.values()) + 1)


def ids() -> Mapping[str, int]:
    return built_in().ids


def size() -> int:
    return built_in().size


def tokenize(phonemes: str) -> tuple[int, ...]:
    return built_in().tokenize(phonemes)


def unknown(phonemes: str) -> set[str]:
    return built_in().unknown(phonemes)
