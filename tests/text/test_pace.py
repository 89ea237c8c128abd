"""Piece sizes as arithmetic: with pieces cut by these rules, simulated playback starts in time and never stalls."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server.text import pace
from kokoro_server.text.pace import Pace
from kokoro_server.text.pieces import PacedPacker, Piece, PieceSizes
from kokoro_server.text.splitter import Span
from kokoro_server.text.spoken import Spoken, is_speech

WORD = "abcde"


def sentence(words: int, commas: int = 0) -> str:
    """`words` words of five phonemes, a comma after each `commas`-th."""
    said = [WORD + ("," if commas and place % commas == 0 else "") for place in range(1, words + 1)]
    return " ".join(said).rstrip(",") + "."


def pack(texts: list[str], speed_of: Pace, sizes: PieceSizes | None = None) -> list[Piece]:
    packer = PacedPacker(sizes or PieceSizes(), speed_of)
    spoken = [Spoken(Span(i * 10, i * 10 + 9, "x" * 9), text) for i, text in enumerate(texts)]
    return [piece for each in spoken for piece in packer.add(each)] + packer.finish()


def stalls(pieces: list[Piece], speed_of: Pace) -> list[float]:
    """Seconds that a listener waits: before the first piece, and before each of the others."""
    made = speed_of.cost(len(pieces[0].phonemes))
    waits, plays_until = [made], made + pace.LEAD + speed_of.heard(len(pieces[0].phonemes))
    for piece in pieces[1:]:
        made += speed_of.cost(len(piece.phonemes))
        waits.append(max(0.0, made - plays_until))
        plays_until = max(plays_until, made) + speed_of.heard(len(piece.phonemes))
    return waits


TEXTS = {
    "ordinary": [sentence(9), *[sentence(17, 6)] * 20],
    "no commas": [sentence(30)] * 10,
    "short sentences": [sentence(2)] * 60,
    "a long one after a short one": [sentence(1), sentence(66), *[sentence(20)] * 5],
    "one word": [sentence(1)],
    "endless": [sentence(400)],
}


@pytest.mark.parametrize("factor", [0.02, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5])
@pytest.mark.parametrize("name", TEXTS)
def test_a_fast_enough_machine_starts_within_a_second_and_never_stalls(name: str, factor: float) -> None:
    waits = stalls(pieces := pack(TEXTS[name], Pace(factor)), Pace(factor))
    assert waits[0] <= pace.START + Pace(factor).cost(len(WORD)) - Pace(factor).cost(0)  # within a word of it
    assert max(waits[1:], default=0) == 0, [len(piece.phonemes) for piece in pieces]


@pytest.mark.parametrize("factor", [0.55, 0.6])
@pytest.mark.parametrize("name", TEXTS)
def test_a_slower_one_starts_later_rather_than_stall(name: str, factor: float) -> None:
    waits = stalls(pieces := pack(TEXTS[name], Pace(factor)), Pace(factor))
    assert waits[0] <= pace.LATEST_START + 0.5
    assert max(waits[1:], default=0) < 0.2, [len(piece.phonemes) for piece in pieces]


def test_a_machine_that_does_not_keep_up_is_not_planned_for() -> None:
    assert [factor for factor in (0.5, 0.6, 0.7, 1.2) if Pace(factor).keeps_up] == [0.5, 0.6]


def test_pieces_grow_until_they_are_of_the_usual_size() -> None:
    lengths = [len(piece.phonemes) for piece in pack([sentence(17, 6)] * 20, Pace(0.4))]
    assert lengths[0] < 50
    assert lengths[1] < 80
    assert all(100 <= length <= 400 for length in lengths[4:-1])


def test_a_fast_machine_cuts_as_if_its_speed_were_not_known() -> None:
    texts = ["aa.", sentence(7, 3), sentence(30, 4), sentence(80)]
    lengths = [len(piece.phonemes) for piece in pack(texts[1:], Pace(0.02))]
    assert lengths[0] == len(texts[1])
    assert len(pack(texts[2:], Pace(0.02))[0].phonemes) <= 50


def test_a_first_size_that_was_asked_for_is_kept() -> None:
    asked = PieceSizes(first=80, first_is_given=True)
    pieces = pack([sentence(30, 10), sentence(17)], Pace(0.4), asked)
    assert len(pieces[0].phonemes) == 10 * 6  # to the first comma, far more than fits a second
    assert pieces[0].ends == "clause"


def test_a_boundary_is_preferred_to_a_word_end() -> None:
    pieces = pack([f"{WORD} {WORD} {WORD}, " + sentence(30)], Pace(0.4))
    assert pieces[0].phonemes == f"{WORD} {WORD} {WORD},"
    assert pieces[0].ends == "clause"


def test_a_pause_is_time_to_make_more() -> None:
    long = [Spoken(Span(0, 9, "x" * 9), sentence(60))]
    sizes = []
    for seconds in (0.0, 5.0):
        packer = PacedPacker(PieceSizes(), Pace(0.4))
        packer.add(Spoken(Span(0, 9, "x" * 9), sentence(4)))
        packer.finish()
        packer.rest(seconds)
        sizes.append(len((packer.add(long[0]) + packer.finish())[0].phonemes))
    assert sizes[1] > sizes[0]


def test_slow_speech_has_a_shorter_first_piece() -> None:
    assert Pace(0.4, 0.5).first < Pace(0.4, 1).first < Pace(0.4, 2).first


def test_measurements_that_differ_a_little_cut_alike() -> None:
    assert Pace.measured(0.36) == Pace.measured(0.39) == Pace(0.4)
    assert Pace.measured(3.7) == Pace(3.7)


@settings(deadline=None)
@given(
    st.lists(st.text(alphabet="abˈː ,.;", min_size=1, max_size=120).filter(is_speech), max_size=8),
    st.floats(0.01, 0.6),
    st.floats(0.25, 4),
    st.integers(1, 20),
    st.integers(20, 60),
    st.booleans(),
)
def test_every_phoneme_is_spoken_once_and_in_order(
    texts: list[str], factor: float, speed: float, shortest: int, longest: int, given_first: bool
) -> None:
    sizes = PieceSizes(12, shortest, longest, given_first)
    pieces = [piece.phonemes for piece in pack(texts, Pace(factor, speed), sizes)]
    assert all(0 < len(piece) <= longest for piece in pieces)
    assert all(is_speech(piece) for piece in pieces)
    marks = str.maketrans("", "", " .,;ˈː")
    assert "".join(pieces).translate(marks) == "".join(texts).translate(marks)
