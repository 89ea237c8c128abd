"""What every parser of user input costs grows with its length, not with the square of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from kokoro_server.text import markup
from kokoro_server.text.cut_points import find_cuts
from kokoro_server.text.reader import _split_phonemes
from kokoro_server.text.sentence_buffer import SentenceBuffer
from kokoro_server.text.splitter import sentences
from kokoro_server.text.traced import Traced

WORST = 3.0  # times the cost for twice the input: 2 is linear, 4 quadratic


def appended(text: str) -> None:
    buffer = SentenceBuffer()
    buffer.append(text)
    for _ in range(20):
        buffer.append(" ")


PARSERS: dict[str, Callable[[str], object]] = {
    "phonemes": lambda text: list(_split_phonemes(text)),
    "sentences": lambda text: list(sentences(text)),
    "clean": lambda text: markup.clean(Traced.of(text, 0)),
    "cuts": lambda text: find_cuts(text, lambda: [], 400),
    "appended": appended,
}
SIZES = {"phonemes": 20_000, "sentences": 20_000, "clean": 20_000, "cuts": 4_000, "appended": 20_000}
TEXTS = {"dots": (".", "a"), "spaces": (" ", "a"), "newlines": ("\n", "a"), "quotes": ('"', "a"), "dashes": ("—", "a")}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("parser", PARSERS)
def test_twice_the_input_costs_about_twice(parser: str, text: str) -> None:
    unit, end = TEXTS[text]
    if parser == "phonemes" and unit == "\n":
        unit = " "
    parse = PARSERS[parser]

    def cost(size: int) -> float:
        given = unit * size + end
        best = float("inf")
        for _ in range(3):
            started = time.thread_time()
            parse(given)
            best = min(best, time.thread_time() - started)
        return best

    parse(unit * 10 + end)
    size = SIZES[parser]
    # Below a hundredth of a second it is the clock that is measured; so little harms nobody.
    assert cost(2 * size) < max(WORST * cost(size), 0.01)
