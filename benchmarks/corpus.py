"""What the benchmarks say: 1,000 English sentences with their phonemes, in several voices.

The first 56 are those of the tests; the others are put together from clauses, of lengths as they occur in prose.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

from benchmarks import common
from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import Row
from kokoro_server.voices import VoiceBook

PATH = common.ROOT / "benchmarks" / "data" / "sentences.json"
BASIC = 56
FOUR_VOICES = ("af_heart", "am_michael", "bf_emma", "zf_xiaobei")
TWELVE_VOICES = (
    *FOUR_VOICES, "bm_george", "af_bella", "am_puck", "bf_isabella", "af_nicole", "jf_alpha", "em_alex", "bm_fable",
)  # fmt: skip


@cache
def sentences() -> tuple[dict[str, str], ...]:
    """Each with `text` and `phonemes`."""
    return tuple(json.loads(PATH.read_text(encoding="utf-8")))


def row(voices: VoiceBook, index: int, voice: str, seed: int) -> Row:
    tokens = vocab.tokenize(sentences()[index]["phonemes"])
    return Row(tokens, voices.style(voice, len(tokens)), seed=seed)


def basic(voices: VoiceBook) -> list[Row]:
    """The first sentences, each in four voices; neighbours are of different lengths."""
    pairs = [(i, FOUR_VOICES[(i + turn) % 4]) for turn in range(4) for i in range(BASIC)]
    return [row(voices, index, voice, seed) for seed, (index, voice) in enumerate(pairs)]


def various(voices: VoiceBook, indices: Sequence[int]) -> list[Row]:
    """These sentences, the voices going round."""
    return [row(voices, index, TWELVE_VOICES[turn % len(TWELVE_VOICES)], index) for turn, index in enumerate(indices)]
