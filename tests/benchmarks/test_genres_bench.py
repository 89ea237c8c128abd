"""What Whisper writes is compared with what was said, however it writes it."""

from __future__ import annotations

import pytest

from benchmarks.genres_bench import compare


@pytest.mark.parametrize(
    ("said", "heard", "errors"),
    [
        ("five dollars at three P.M", "$5 at 3 p.m.", 0),
        ("Doctor Patel, P.H.D", "Dr. Patel, PhD", 0),
        ("the average wait", "the average weight", 1),
        ("two point ten", "", 3),
    ],
)
def test_words_are_compared_as_they_are_said(said: str, heard: str, errors: int) -> None:
    assert compare("", said, heard)["word_errors"] == errors
