"""`config.json` of a model: its vocabulary and its sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from kokoro_server.errors import AssetError
from kokoro_server.runtime.json import JsonObject

FILE = "config.json"
MAX_BYTES = 200_000
SHOWN = 40  # characters of a value in a message

# Sizes that a model may have of its own: the least and the greatest number.
SIZES = {
    "n_layer": (1, 12),
    "n_token": (2, 10_000),
    "max_dur": (1, 200),
    "text_encoder_kernel_size": (1, 15),
    "n_mels": (1, 512),
    "plbert.hidden_size": (8, 2048),
    "plbert.num_attention_heads": (1, 64),
    "plbert.intermediate_size": (8, 8192),
    "plbert.num_hidden_layers": (1, 48),
}
# Sizes that the rest of the server relies on (voices, the length of a piece, samples in a frame), or kokoro's decoder.
FIXED: Mapping[str, object] = MappingProxyType(
    {
        "style_dim": 128,
        "hidden_dim": 512,
        "istftnet.upsample_initial_channel": 512,
        "plbert.max_position_embeddings": 512,
        "istftnet.upsample_rates": [10, 6],
        "istftnet.upsample_kernel_sizes": [20, 12],
        "istftnet.gen_istft_n_fft": 20,
        "istftnet.gen_istft_hop_size": 5,
    }
)
BLOCKS = ("istftnet.resblock_kernel_sizes", "istftnet.resblock_dilation_sizes")
MAX_BLOCKS = 5
ODD = ("text_encoder_kernel_size",)  # a kernel reaches as far to both sides


@dataclass(frozen=True, slots=True, eq=False)
class ModelConfig:
    """A checked `config.json`. `content` is what `kokoro.KModel` is made from."""

    content: Mapping[str, Any]
    vocabulary: Mapping[str, int]

    @property
    def sizes(self) -> dict[str, object]:
        """All that decides the shapes of the tensors, by name."""
        return {name: _at(self.content, name) for name in (*SIZES, *FIXED, *BLOCKS)}

    def differences(self, other: ModelConfig) -> list[str]:
        """The sizes that differ from those of another model, each in words."""
        theirs = other.sizes
        return [
            f"{name} {json.dumps(value)} instead of {json.dumps(theirs[name])}"
            for name, value in self.sizes.items()
            if value != theirs[name]
        ]

    @property
    def digest(self) -> str:
        return sha256(json.dumps(self.sizes).encode()).hexdigest()


def read(path: Path) -> ModelConfig:
    """Raises AssetError that names what is wrong, and what is allowed."""
    if not path.is_file():
        raise AssetError(f"{path}: missing; copy it from where the weights come from: it has the vocabulary and sizes")
    if path.stat().st_size > MAX_BYTES:
        raise AssetError(f"{path}: has more than {MAX_BYTES:,} bytes, too many for a model's configuration")
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError, OSError) as error:
        raise AssetError(f"{path}: cannot be read as JSON ({error!s:.200}); copy it again") from error
    try:
        return check(content)
    except AssetError as error:
        raise AssetError(f"{path}: {error.message}") from None


def check(content: object) -> ModelConfig:
    if not isinstance(content, dict):
        raise AssetError("must be a JSON object, as Kokoro's config.json is")
    problems = [*_size_problems(content), *_vocabulary_problems(content)]
    if problems:
        raise AssetError("; ".join(problems))
    config = {**content, "dropout": 0.0, "plbert": {**content["plbert"], "dropout": 0.0}}
    return ModelConfig(MappingProxyType(config), MappingProxyType(dict(content["vocab"])))


def _without_repeats(pairs: list[tuple[str, Any]]) -> JsonObject:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r:.{SHOWN}} is there twice")
    return made


def _at(content: Mapping[str, Any], name: str) -> Any:
    for part in name.split("."):
        content = content.get(part) if isinstance(content, dict | MappingProxyType) else None  # type: ignore[assignment]
    return content


def _size_problems(content: JsonObject) -> Iterator[str]:
    for name, (least, greatest) in SIZES.items():
        value = _at(content, name)
        if type(value) is not int or not least <= value <= greatest:
            yield f"{name} is {_shown(value)}; it must be a whole number from {least} to {greatest}"
        elif name in ODD and value % 2 == 0:
            yield f"{name} is {value}; it must be odd"
    for name, expected in FIXED.items():
        if (value := _at(content, name)) != expected:
            yield f"{name} is {_shown(value)}; this server runs models with {expected} alone"
    yield from _block_problems(content)
    width, heads = _at(content, "plbert.hidden_size"), _at(content, "plbert.num_attention_heads")
    if type(width) is int and type(heads) is int and heads > 0 and width % heads:
        yield f"plbert.hidden_size {width} cannot be divided by plbert.num_attention_heads {heads}"


def _block_problems(content: JsonObject) -> Iterator[str]:
    kernels, dilations = (_at(content, name) for name in BLOCKS)
    if not (_are_numbers(kernels, 15) and len(kernels) <= MAX_BLOCKS and all(size % 2 for size in kernels)):
        yield f"{BLOCKS[0]} is {_shown(kernels)}; it must be a list of 1 to {MAX_BLOCKS} odd numbers up to 15"
    elif not (
        isinstance(dilations, list)
        and len(dilations) == len(kernels)
        and all(_are_numbers(row, 30) and len(row) == 3 for row in dilations)
    ):
        yield f"{BLOCKS[1]} is {_shown(dilations)}; it must have a list of three numbers for each kernel"


def _are_numbers(values: object, greatest: int) -> bool:
    return (
        isinstance(values, list)
        and bool(values)
        and all(type(value) is int and 1 <= value <= greatest for value in values)
    )


def _vocabulary_problems(content: JsonObject) -> Iterator[str]:
    vocabulary, tokens = content.get("vocab"), content.get("n_token")
    if not isinstance(vocabulary, dict) or not vocabulary:
        yield "vocab is missing; it must give each phoneme its number"
        return
    if long := [symbol for symbol in vocabulary if len(symbol) != 1]:
        yield f"vocab has {_shown(long[0])}; each of its phonemes must be a single character"
    if " " not in vocabulary:
        yield "vocab has no space, which stands between words"
    if type(tokens) is not int:
        return
    wrong = [f"{symbol!r}: {_shown(number)}" for symbol, number in vocabulary.items() if not _is_id(number, tokens)]
    if wrong:
        yield f"vocab has {', '.join(wrong[:5])}; its numbers must be from 1 to {tokens - 1}, below n_token"
    elif len(set(vocabulary.values())) != len(vocabulary):
        numbers = list(cast(dict[str, int], vocabulary).values())
        twice = next(number for number in numbers if numbers.count(number) > 1)
        names = [symbol for symbol, number in vocabulary.items() if number == twice]
        yield f"vocab gives several phonemes the number {twice}: {' '.join(names[:5])}"


def _is_id(number: object, tokens: int) -> bool:
    return type(number) is int and 1 <= number < tokens


def _shown(value: object) -> str:
    return "missing" if value is None else f"{value!r:.{SHOWN}}"
