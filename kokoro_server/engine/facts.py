"""The facts about a loaded model: its files, its arithmetic, its devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The same in the engine process, in API workers and in `GET /health`."""

    voices: Path  # the folder of Kokoro's own voices
    precision: str  # of the model file that the weights were made from
    source: str  # where that file came from
    backend: str = "torch"
    compute: str = "fp32"  # precision of the arithmetic
    kernels: str = "torch"  # what multiplies
    devices: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> ModelFacts:
        """From the fields as `dataclasses.asdict` and JSON leave them."""
        return cls(**{**facts, "voices": Path(facts["voices"]), "devices": tuple(facts["devices"])})
