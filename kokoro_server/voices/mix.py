"""Mixes of voices as they are written.

A mix is `af_bella+af_sky`, `af_bella(2)+af_sky(1)` or `af_bella:0.7,af_sky:0.3`. In `af_bella-af_sky(0.3)` a voice is
subtracted, as in Kokoro-FastAPI: the weights are divided by the sum of their absolute values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from fractions import Fraction

from kokoro_server.errors import InvalidInput, UnknownVoice
from kokoro_server.voices.names import resolve

MAX_PARTS = 8  # of a mix

_SIGN = re.compile(r"([-+,])(?![^()]*\))")  # between the parts of a mix, and not in a weight
_PART = re.compile(r"(?P<name>[^\s():+,]+)\s*(?:\(\s*(?P<inner>[^)]*?)\s*\)|:\s*(?P<after>\S+))?")
_WEIGHT = re.compile(r"\d{1,4}(\.\d{1,4})?|\.\d{1,4}")
_HYPHEN = "\0"  # replaces a hyphen within a name while a mix is split


def parse(spec: str, known: Collection[str]) -> dict[str, int]:
    """The weight of each voice of a mix, the first of them above 0; of a single voice, 1."""
    if (name := spec.strip()) in known:
        return {name: 1}
    first, *rest = _cut(spec, known)
    texts = [("+", first), *zip(rest[::2], rest[1::2], strict=True)]
    if len(texts) > MAX_PARTS:
        raise InvalidInput(f"voice mixes {len(texts)} voices; at most {MAX_PARTS} are allowed", field="voice")
    weights: dict[str, Fraction] = {}
    for sign, text in texts:
        name, weight = _part(text.strip(), spec)
        if "/" in name and len(texts) > 1 and name not in known:
            raise UnknownVoice(
                f"voice {name!r} is of another model; all voices of a mix are of one model", field="voice"
            )
        name = resolve(name, known)
        before = weights.get(name, Fraction(0))
        if before and (before < 0) != (sign == "-"):
            raise InvalidInput(f"voice {spec!r} both adds and subtracts {name}; do one of them", field="voice")
        weights[name] = before + (-weight if sign == "-" else weight)
    scale = math.lcm(*(weight.denominator for weight in weights.values()))
    whole = {name: int(weight * scale) for name, weight in weights.items()}
    shared = math.gcd(*whole.values())
    return {name: weight // shared for name, weight in whole.items()}


def model_of(spec: str) -> str | None:
    """The model that the names of a mix begin with, as in `de-kikiri/df_anna+dm_bert`."""
    model, slash, _ = spec.partition("/")
    return model.strip() if slash else None


def without_model(spec: str, model: str) -> str:
    """The mix as the model knows it."""
    return re.sub(rf"(?<![\w./]){re.escape(model)}/", "", spec)


def check(spec: str, names: Collection[str]) -> None:
    """Raises UnknownVoice for a mix that is not of these voices, or of voices of several models."""
    model = model_of(spec)
    prefix = f"{model}/" if model else ""
    own = without_model(spec, model) if model else spec
    parse(own, [name.removeprefix(prefix) for name in names if name.startswith(prefix)])


def spell(parts: Mapping[str, int]) -> str:
    """One spelling for each voice or mix: whole-number weights in lowest terms, in the order they were given."""
    equal = len({abs(weight) for weight in parts.values()}) == 1
    spelled = (
        ("-" if weight < 0 else "+") + (name if equal else f"{name}({abs(weight)})") for name, weight in parts.items()
    )
    return "".join(spelled)[1:]


def _cut(spec: str, known: Collection[str]) -> list[str]:
    """The texts of a mix and the signs between them. A hyphen within the name of a voice is not a sign."""
    hyphened = [name for name in known if "-" in name and name in spec] if "-" in spec else []
    if not hyphened:
        return _SIGN.split(spec)
    names = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(hyphened, key=len, reverse=True)))})(?![\w.])")
    hidden = names.sub(lambda match: match[0].replace("-", _HYPHEN), spec)
    return [text.replace(_HYPHEN, "-") for text in _SIGN.split(hidden)]


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
