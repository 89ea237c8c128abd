"""Folders for MODELS_PATH: models of other sizes than Kokoro v1.0, as small as a config.json can make them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from kokoro_server.engine import vocab
from kokoro_server.engine.model import skeleton
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM
from kokoro_server.observability import logs
from tests import tiny_model

GERMAN = """name = "German, for tests"
license = "CC0-1.0"
[languages.de]
letter = "d"
"""
# As Kokoro v1.1-zh is described: bopomofo for Chinese, misaki's English beside it, a hundred voices.
CHINESE = """name = "Chinese 1.1, for tests"
license = "Apache-2.0"
voice = "zf_001"
[languages.zh]
g2p = "misaki-1.1"
[languages.en-US]
"""
GERMAN_SOUNDS = 'abdefhijklmnoprstuvyzçøŋœɐɑɔəɛɜɡɪʃʊʏʒʔːˈˌʦʧʤAIOWYɾxχ;:,.!?—…"()“” '
BOPOMOFO = (
    "ㄅㄆㄇㄈㄉㄊㄋㄌㄍㄎㄏㄐㄑㄒㄓㄔㄕㄖㄗㄘㄙㄚㄛㄜㄝㄞㄟㄠㄡㄢㄣㄤㄥㄦㄧㄨㄩㄭ"
    "十月压言阳要阴应用又中穵外万王为文瓮我元云12345R/"
)


def configuration(vocabulary: str = GERMAN_SOUNDS) -> dict[str, Any]:
    full = vocab.config()
    albert = full["plbert"] | {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
    generator = full["istftnet"] | {"resblock_kernel_sizes": [3], "resblock_dilation_sizes": [[1, 3, 5]]}
    sizes = {"n_layer": 1, "n_token": 200, "text_encoder_kernel_size": 3, "istftnet": generator}
    sizes |= {"plbert": albert | {"num_hidden_layers": 1}}
    return full | sizes | {"vocab": {symbol: 1 + place for place, symbol in enumerate(vocabulary)}}


@cache
def _state() -> Mapping[str, Any]:
    """Random weights; those of the decoder's own widths, which no configuration decides, are zero but for a few."""
    random, state = np.random.default_rng(0), dict[str, Any]()
    for name, shape in skeleton.shapes(configuration()).items():
        if name.endswith(("weight_g", "norm.weight")) or "alpha" in name:
            state[name] = np.ones(shape, np.float16)
        elif np.prod(shape) > 200_000:
            state[name] = np.full(shape, 1e-3, np.float16)
        else:
            state[name] = (0.05 * random.standard_normal(shape)).astype(np.float16)
    state["predictor.duration_proj.linear_layer.bias"][:] = -3  # a token takes two frames
    state["decoder.generator.conv_post.weight_g"][:] = 0  # else its exponent overflows
    return state


def write(folder: Path, card: str = GERMAN, vocabulary: str = GERMAN_SOUNDS, voices: str = "df_anna dm_bert") -> Path:
    """A whole model, which speaks gibberish by torch."""
    describe(folder, card, vocabulary, voices)
    kept = tiny_model.weights().with_name("other_sizes.safetensors")
    if not kept.exists():
        unfinished = kept.with_suffix(".unfinished")
        save_file(dict(_state()), unfinished)
        unfinished.replace(kept)
    (folder / "model.safetensors").hardlink_to(kept) if _same_disk(folder, kept) else shutil.copy(
        kept, folder / "model.safetensors"
    )
    return folder


def describe(
    folder: Path, card: str = GERMAN, vocabulary: str = GERMAN_SOUNDS, voices: str = "df_anna dm_bert"
) -> Path:
    """All but the weights."""
    (folder / "voices").mkdir(parents=True)
    (folder / "model.toml").write_text(card, encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(configuration(vocabulary)), encoding="utf-8")
    random = np.random.default_rng(1)
    for name in voices.split():
        pack = random.normal(scale=0.5, size=(MAX_TOKENS, 1, STYLE_DIM)).astype("<f4")
        (folder / "voices" / f"{name}.bin").write_bytes(pack.tobytes())
    return folder


def _same_disk(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


def for_commands(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """The MODELS_PATH of the commands that a test runs in its own process."""
    patch.chdir(folder)
    patch.setattr(logs, "configure", lambda _level: None)
    patch.setenv("MODELS_PATH", str(folder / "models"))
    patch.setenv("KOKORO_CACHE_DIR", str(folder / "cache"))
    return folder / "models"
