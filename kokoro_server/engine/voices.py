"""Voices: style packs on disk, looked up by name or mixed.

A pack has one style for each phoneme count from 1 to 510. A mix is written `af_bella+af_sky`, `af_bella(2)+af_sky(1)`
or `af_bella:0.7,af_sky:0.3`. In `af_bella-af_sky(0.3)` a voice is taken away, as Kokoro-FastAPI does it: the weights
are divided by what they add up to without their signs.
"""

from __future__ import annotations

import difflib
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kokoro_server.assets import torch_reader
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM, Style
from kokoro_server.errors import AssetError, InvalidInput, UnknownVoice

log = logging.getLogger(__name__)

Pack = NDArray[np.float32]  # (MAX_TOKENS, STYLE_DIM)

MAX_PARTS = 8  # of a mix
CACHED_PACKS = 128  # half a megabyte each: enough for all the voices and as many mixes

_NAME = re.compile(r"[a-z][fm]_\w+")  # language, gender, name
_SIGN = re.compile(r"([-+,])(?![^()]*\))")  # between the parts of a mix, and not in a weight
_PART = re.compile(r"(?P<name>[^\s():+,]+)\s*(?:\(\s*(?P<inner>[^)]*?)\s*\)|:\s*(?P<after>\S+))?")
_WEIGHT = re.compile(r"\d{1,4}(\.\d{1,4})?|\.\d{1,4}")

# Overall grades, from the table in the sources of kokoro 0.9.4.
_GRADES = {
    "A": "af_heart",
    "A-": "af_bella",
    "B-": "af_nicole bf_emma ff_siwis",
    "C+": "af_aoede af_kore af_sarah am_fenrir am_michael am_puck jf_alpha",
    "C": "af_alloy af_nova bf_isabella bm_fable bm_george hf_alpha hf_beta hm_omega hm_psi if_sara im_nicola "
    "jf_gongitsune jf_tebukuro",
    "C-": "af_sky jf_nezumi jm_kumo",
    "D+": "bm_lewis",
    "D": "af_jessica af_river am_echo am_eric am_liam am_onyx bf_alice bf_lily bm_daniel "
    "ef_dora em_alex em_santa pf_dora pm_alex pm_santa "
    "zf_xiaobei zf_xiaoni zf_xiaoxiao zf_xiaoyi zm_yunjian zm_yunxi "
    "zm_yunxia zm_yunyang",
    "D-": "am_santa",
    "F+": "am_adam",
}
GRADES: Mapping[str, str] = {name: grade for grade, names in _GRADES.items() for name in names.split()}


@dataclass(frozen=True, slots=True)
class VoiceInfo:
    name: str
    title: str
    language: str  # Kokoro's letter: a b e f h i j p z
    gender: Literal["female", "male"]
    grade: str | None  # overall, A best; None where none was published


class VoiceBook:
    """The voices of one folder: raw `.bin` and `.pt` packs, read when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = _find(folder)
        self._pack: Callable[[str], Pack] = lru_cache(CACHED_PACKS)(self._load)

    def names(self) -> list[str]:
        return list(self._files)

    def info(self, name: str) -> VoiceInfo:
        self._require(name)
        title = name[3:].replace("_", " ").title()
        return VoiceInfo(name, title, name[0], "female" if name[1] == "f" else "male", GRADES.get(name))

    def canonical(self, spec: str) -> str:
        """One spelling for each voice or mix: whole-number weights in lowest terms, in the order they were given."""
        if spec in self._files:
            return spec
        parts = self._parse(spec)
        equal = len({abs(weight) for weight in parts.values()}) == 1
        spelled = (
            ("-" if weight < 0 else "+") + (name if equal else f"{name}({abs(weight)})")
            for name, weight in parts.items()
        )
        return "".join(spelled)[1:]

    def pack(self, spec: str) -> Pack:
        """The styles of a voice or mix, read-only."""
        return self._pack(self.canonical(spec))

    def style(self, spec: str, n_tokens: int) -> Style:
        """The style for an utterance of `n_tokens` phonemes: row n - 1 of the pack, as KPipeline takes it."""
        style: Style = self.pack(spec)[min(max(n_tokens, 1), MAX_TOKENS) - 1].copy()
        return style

    def _parse(self, spec: str) -> dict[str, int]:
        """The weight of each voice, the first of them above 0."""
        first, *others = _SIGN.split(spec)
        texts = [("+", first), *zip(others[::2], others[1::2], strict=True)]
        if len(texts) > MAX_PARTS:
            raise InvalidInput(f"voice mixes {len(texts)} voices; at most {MAX_PARTS} are allowed", field="voice")
        weights: dict[str, Fraction] = {}
        for sign, text in texts:
            name, weight = _part(text.strip(), spec)
            self._require(name)
            before = weights.get(name, Fraction(0))
            if before and (before < 0) != (sign == "-"):
                raise InvalidInput(f"voice {spec!r} both adds {name} and takes it away; do one of them", field="voice")
            weights[name] = before + (-weight if sign == "-" else weight)
        scale = math.lcm(*(weight.denominator for weight in weights.values()))
        whole = {name: int(weight * scale) for name, weight in weights.items()}
        shared = math.gcd(*whole.values())
        return {name: weight // shared for name, weight in whole.items()}

    def _require(self, name: str) -> None:
        if name not in self._files:
            close = difflib.get_close_matches(name, self._files, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(close)}?" if close else "GET /voices lists them."
            raise UnknownVoice(f"there is no voice {name!r}; {hint}", field="voice")

    def _load(self, canonical: str) -> Pack:
        parts = self._parse(canonical)
        total = sum(map(abs, parts.values()))
        mixed = np.zeros((MAX_TOKENS, STYLE_DIM), np.float64)
        for name, weight in parts.items():
            mixed += _read(self._files[name]).astype(np.float64) * (weight / total)
        pack = mixed.astype(np.float32)
        pack.flags.writeable = False
        return pack


def _part(text: str, spec: str) -> tuple[str, Fraction]:
    match = _PART.fullmatch(text)
    if not match:
        raise InvalidInput(f"voice {spec!r} is not a name or a mix such as 'af_bella(2)+af_sky(1)'", field="voice")
    weight = match["inner"] if match["inner"] is not None else match["after"]
    if weight is None:
        return match["name"], Fraction(1)
    if not _WEIGHT.fullmatch(weight) or not Fraction(weight):
        raise InvalidInput(
            f"voice {spec!r}: the weight {weight!r} must be a number above 0 and below 10000, with at most 4 decimals",
            field="voice",
        )
    return match["name"], Fraction(weight)


def _find(folder: Path) -> dict[str, Path]:
    files = sorted(path for path in folder.glob("*") if path.suffix in (".bin", ".pt"))
    for path in files:
        if not _NAME.fullmatch(path.stem):
            log.warning("voice left out file=%s: names are a language letter, f or m, '_' and a name", path.name)
    found = {path.stem: path for path in files if _NAME.fullmatch(path.stem)}
    if not found:
        raise AssetError(f"{folder}: no voices (*.bin, *.pt) there; run 'kokoro-server assets fetch'")
    return found


def _read(path: Path) -> Pack:
    try:
        values = torch_reader.tensor(path) if path.suffix == ".pt" else np.frombuffer(path.read_bytes(), "<f4")
        pack = values.reshape(MAX_TOKENS, STYLE_DIM).astype(np.float32)
    except Exception as error:  # a damaged pickle may raise anything
        raise AssetError(
            f"{path}: not a voice pack of {MAX_TOKENS} × {STYLE_DIM} numbers ({error}); fetch it again"
        ) from error
    if not np.isfinite(pack).all():
        raise AssetError(f"{path}: the voice pack has values that are not finite; fetch it again")
    return pack
