"""The facts about a loaded model: its files, its arithmetic, its devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
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

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"voices": str(self.voices)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> ModelFacts:
        return cls(**{**facts, "voices": Path(facts["voices"]), "devices": tuple(facts["devices"])})
