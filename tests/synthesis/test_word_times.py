"""When words end: where the next one begins, or where it falls silent, whatever the model's durations say."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from kokoro_server import languages
from kokoro_server.batching.entry import FireReason, Outcome
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Audio, Result
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.utterance import EARLY_FRAMES, Utterance
from kokoro_server.text.phonemized import PhonemizedSentence, PhonemizedWord, known_words
from kokoro_server.text.pieces import Piece
from kokoro_server.text.script import Delivery, Run
from kokoro_server.text.splitter import TextSpan
from kokoro_server.text.traced import Traced

TEXT = "ab cd. ef"
WORDS = tuple(PhonemizedWord(start, start + 2, start, start + 2) for start in (0, 3, 7))
#                     pad  a  b     c  d  .     e  f  pad
DURATIONS = np.array([6, 4, 4, 2, 4, 12, 4, 4, 4, 12, 8])  # frames
BEGINS = (np.cumsum(DURATIONS) - DURATIONS - EARLY_FRAMES)[1:]  # of the phonemes, as they are heard
FRAME = SAMPLES_PER_FRAME / SAMPLE_RATE  # seconds


def audio(*silent: tuple[int, int]) -> Audio:
    """A tone, with silence from the one frame to the other."""
    made = np.sin(np.arange(int(DURATIONS.sum()) * SAMPLES_PER_FRAME) / 5).astype(np.float32)
    for begin, end in silent:
        made[begin * SAMPLES_PER_FRAME : end * SAMPLES_PER_FRAME] = 0
    return made


def outcome(audio: Audio) -> Outcome:
    return Outcome(Result(audio, DURATIONS), 0.0, 0.0, 1, FireReason.QUIET)


def utterance() -> tuple[Utterance, Piece]:
    sentence = PhonemizedSentence(TextSpan(0, len(TEXT), TEXT), TEXT, known_words(WORDS), languages.EN_US)
    piece = Piece(TEXT, 0, len(TEXT), parts=((sentence, 0),), last=True)
    return Utterance(Run(Traced.of(TEXT), Delivery("af_heart", languages.EN_US)), 0.0), piece


async def timed(audio: Audio) -> list[Timing]:
    made, piece = utterance()
    segment = await made.add(deque([piece]), outcome(audio))
    for index, word in enumerate(segment.words):
        own = [phoneme for phoneme in segment.phonemes if phoneme.word == index]
        assert [own[0].start, own[0].end, own[1].end] == [word.start, own[1].start, word.end]
    return list(segment.words)


async def test_a_word_ends_where_the_next_one_begins() -> None:
    first, second, _ = await timed(audio())
    assert first.end == second.start == pytest.approx(BEGINS[3] * FRAME)


async def test_a_word_before_a_pause_ends_with_its_sound() -> None:
    """The model gives most of the pause to the sound before it."""
    silent = (BEGINS[4] + 4, BEGINS[7]), (BEGINS[8] + 5, BEGINS[9])
    _, second, third = await timed(audio(*silent))
    assert second.end == pytest.approx((BEGINS[4] + 4) * FRAME, abs=0.01)
    assert third.start == pytest.approx(BEGINS[7] * FRAME)
    assert third.end == pytest.approx((BEGINS[8] + 5) * FRAME, abs=0.01)


async def test_a_comma_without_a_pause() -> None:
    _, second, third = await timed(audio())
    assert second.end == third.start


async def test_the_beginning_has_the_words_whose_ends_are_in_it() -> None:
    whole = audio((BEGINS[4] + 4, BEGINS[7]), (BEGINS[8] + 5, BEGINS[9]))
    expected = await timed(whole)
    for frames, count in ((BEGINS[3] - 1, 1), (BEGINS[7] - 1, 1), (BEGINS[7], 2), (len(whole), 2)):
        made, piece = utterance()
        beginning = made.begin(piece, outcome(whole[: int(frames) * SAMPLES_PER_FRAME]))
        assert beginning is not None
        rest = await made.add(deque([piece]), outcome(whole))
        assert len(beginning.words) == count
        assert [*beginning.words, *rest.words] == expected
        assert [phoneme.word for phoneme in rest.phonemes] == [index for index in range(3 - count) for _ in "ab"]
