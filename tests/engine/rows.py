"""Rows for tests: random ones for the tiny model, real sentences for the real one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st

from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM, Row
from kokoro_server.voices import VoiceBook

SENTENCES: list[dict[str, str]] = json.loads(
    (Path(__file__).parents[1] / "data" / "sentences.json").read_text(encoding="utf-8")
)
VOICES = ("af_heart", "am_michael", "bf_emma", "bm_george", "af_nicole", "jf_alpha", "zf_xiaobei", "em_alex")
SPEEDS = (1.0, 1.0, 1.25, 0.8, 1.0, 1.7)


def bounded(examples: int) -> settings:
    """The same `examples` each time; a failing one is not made smaller, which can take minutes."""
    return settings(
        max_examples=examples, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate), database=None
    )


def random_row(seed: int, length: int, *, speed: float = 1.0, pitch: float = 0.0) -> Row:
    random = np.random.default_rng(seed)
    tokens = tuple(random.integers(1, vocab.size(), length).tolist())
    return Row(tokens, random.normal(scale=0.5, size=STYLE_DIM).astype(np.float32), speed, pitch, seed)


def random_rows(max_length: int = 24) -> st.SearchStrategy[Row]:
    return st.builds(
        random_row,
        st.integers(0, 2**32),
        st.integers(1, max_length),
        speed=st.floats(0.5, 2.0),
        pitch=st.sampled_from([0.0, 0.0, -5.0, 7.0]),
    )


def sentence_row(index: int, voices: VoiceBook, voice: str | None = None) -> Row:
    """A real sentence; voices and speeds go round."""
    tokens = vocab.tokenize(SENTENCES[index]["phonemes"])
    style = voices.style(voice or VOICES[index % len(VOICES)], len(tokens))
    return Row(tokens, style, SPEEDS[index % len(SPEEDS)], seed=index)


def longest_row() -> Row:
    return random_row(0, MAX_TOKENS)
