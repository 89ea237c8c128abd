"""Piece sizes as arithmetic: with pieces cut by these rules, simulated playback starts in time and never stalls."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server.text import pace
from kokoro_server.text.pace import Pace
from kokoro_server.text.phonemized import PhonemizedSentence, has_sound
from kokoro_server.text.pieces import PacedPacker, Piece, PieceSizes
from kokoro_server.text.splitter import TextSpan

WORD = "abcde"


def sentence(words: int, commas: int = 0) -> str:
    """`words` words of five phonemes, a comma after each `commas`-th."""
    written = [WORD + ("," if commas and number % commas == 0 else "") for number in range(1, words + 1)]
    return " ".join(written).rstrip(",") + "."


def pack(texts: list[str], engine_pace: Pace, sizes: PieceSizes | None = None) -> list[Piece]:
    packer = PacedPacker(sizes or PieceSizes(), engine_pace, length(texts))
    sentences = [PhonemizedSentence(TextSpan(i * 10, i * 10 + 9, "x" * 9), text) for i, text in enumerate(texts)]
    return [piece for each in sentences for piece in packer.add(each)] + packer.finish()


def length(texts: list[str]) -> int:
    return len(" ".join(texts))


def stalls(pieces: list[Piece], engine_pace: Pace) -> list[float]:
    """Seconds that a listener waits: before the first piece, and before each of the others."""
    ready = engine_pace.synthesis_seconds(len(pieces[0].phonemes))
    waits, plays_until = [ready], ready + pace.LEAD_SECONDS + engine_pace.playback_seconds(len(pieces[0].phonemes))
    for piece in pieces[1:]:
        ready += engine_pace.synthesis_seconds(len(piece.phonemes))
        waits.append(max(0.0, ready - plays_until))
        plays_until = max(plays_until, ready) + engine_pace.playback_seconds(len(piece.phonemes))
    return waits


TEXTS = {
    "ordinary": [sentence(9), *[sentence(17, 6)] * 20],
    "no commas": [sentence(30)] * 10,
    "short sentences": [sentence(2)] * 60,
    "a long one after a short one": [sentence(1), sentence(66), *[sentence(20)] * 5],
    "one word": [sentence(1)],
    "endless": [sentence(400)],
}


@pytest.mark.parametrize("factor", [0.06, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45])
@pytest.mark.parametrize("name", TEXTS)
def test_a_fast_enough_machine_starts_within_about_a_second_and_never_stalls(name: str, factor: float) -> None:
    waits = stalls(pieces := pack(TEXTS[name], Pace(factor)), Pace(factor))
    assert waits[0] <= pace.RELAXED_START_SECONDS
    assert max(waits[1:], default=0) == 0, [len(piece.phonemes) for piece in pieces]


@pytest.mark.parametrize("factor", [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8])
@pytest.mark.parametrize("name", TEXTS)
def test_a_slower_machine_starts_later_rather_than_stall(name: str, factor: float) -> None:
    waits = stalls(pieces := pack(TEXTS[name], Pace(factor)), Pace(factor))
    assert waits[0] <= pace.MAX_START_SECONDS
    assert max(waits[1:], default=0) == 0, [len(piece.phonemes) for piece in pieces]


@pytest.mark.parametrize("factor", [0.85, 0.9])
@pytest.mark.parametrize("sentences", [1, 2, 3])
def test_a_short_text_does_not_stall_on_a_still_slower_machine(sentences: int, factor: float) -> None:
    texts = [sentence(9, 4)] * sentences
    assert Pace(factor).start(length(texts)).keeps_up
    waits = stalls(pieces := pack(texts, Pace(factor)), Pace(factor))
    assert waits[0] <= pace.MAX_START_SECONDS
    assert max(waits[1:], default=0) == 0, [len(piece.phonemes) for piece in pieces]


@pytest.mark.parametrize("factor", [0.85, 0.9, 1.0, 1.5])
@pytest.mark.parametrize("name", [name for name in TEXTS if name != "one word"])
def test_where_no_plan_helps_a_stream_starts_all_the_same_and_waits_are_short(name: str, factor: float) -> None:
    slow = Pace(factor)
    assert not slow.start().keeps_up
    waits = stalls(pieces := pack(TEXTS[name], slow), slow)
    word = slow.synthesis_seconds(len(WORD)) - slow.synthesis_seconds(0)
    assert waits[0] <= pace.MAX_START_SECONDS + word
    longest = slow.synthesis_seconds(pace.MAX_STALLED_PHONEMES)
    assert max(waits[1:]) <= longest, [len(piece.phonemes) for piece in pieces]


def test_which_machines_keep_up_with_a_text_of_any_length() -> None:
    assert [factor for factor in pace.FACTOR_STEPS if Pace(factor).start().keeps_up][-1] == 0.8
    assert not any(Pace(factor).start().keeps_up for factor in pace.FACTOR_STEPS if factor > 0.8)


def test_a_fast_machine_needs_no_plan() -> None:
    assert not Pace.from_measurement(0.03).needs_plan
    assert Pace.from_measurement(0.06).needs_plan


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), min_size=1, max_size=30),
    st.sampled_from([step for step in pace.FACTOR_STEPS if step <= 0.8]),
)
def test_no_text_of_any_shape_stalls(shapes: list[tuple[int, int]], factor: float) -> None:
    waits = stalls(pieces := pack([sentence(*shape) for shape in shapes], Pace(factor)), Pace(factor))
    assert waits[0] <= pace.MAX_START_SECONDS
    assert max(waits[1:], default=0) == 0, [len(piece.phonemes) for piece in pieces]


def test_pieces_grow_until_they_are_of_the_usual_size() -> None:
    lengths = [len(piece.phonemes) for piece in pack([sentence(17, 6)] * 20, Pace(0.4))]
    assert lengths[0] < 50
    assert lengths[1] < 80
    assert all(100 <= length <= 400 for length in lengths[4:-1])


def test_a_boundary_is_preferred_to_a_word_end() -> None:
    pieces = pack([f"{WORD} {WORD} {WORD}, " + sentence(30)], Pace(0.4))
    assert pieces[0].phonemes == f"{WORD} {WORD} {WORD},"
    assert pieces[0].ends == "comma"


def test_a_short_sentence_is_not_parted_from_its_last_word() -> None:
    short = f"{WORD} {WORD} {WORD} {WORD} {WORD}."
    assert [piece.phonemes for piece in pack([short], Pace(0.4))] == [short]
    assert Pace(0.4).synthesis_seconds(len(short)) > pace.TARGET_START_SECONDS


def test_a_pause_is_time_to_synthesize_more() -> None:
    long = [PhonemizedSentence(TextSpan(0, 9, "x" * 9), sentence(60))]
    sizes = []
    for seconds in (0.0, 5.0):
        packer = PacedPacker(PieceSizes(), Pace(0.4))
        packer.add(PhonemizedSentence(TextSpan(0, 9, "x" * 9), sentence(4)))
        packer.finish()
        packer.add_pause(seconds)
        sizes.append(len((packer.add(long[0]) + packer.finish())[0].phonemes))
    assert sizes[1] > sizes[0]


def test_slow_speech_has_a_shorter_first_piece() -> None:
    slow, plain, quick = (Pace(0.4, speed).start().max_phonemes for speed in (0.7, 1, 1.4))
    assert slow < plain < quick


def test_speech_that_is_stretched_takes_the_model_as_long_as_at_its_own_pace() -> None:
    for speed in (0.25, 0.5, 2, 4):
        assert Pace(0.4, speed).synthesis_seconds(100) == Pace(0.4).synthesis_seconds(100)
        assert Pace(0.4, speed).playback_seconds(100) == pytest.approx(Pace(0.4).playback_seconds(100) / speed)


def test_measurements_that_differ_a_little_cut_alike() -> None:
    assert Pace.from_measurement(0.36) == Pace.from_measurement(0.39) == Pace(0.4)
    assert Pace.from_measurement(3.7) == Pace(3.7)


def test_planning_the_longest_of_texts_takes_no_time() -> None:
    assert Pace(0.75).start(10**9) is Pace(0.75).start()


@settings(deadline=None)
@given(
    st.lists(st.text(alphabet="abˈː ,.;", min_size=1, max_size=120).filter(has_sound), max_size=8),
    st.floats(0.01, 3),
    st.floats(0.25, 4),
    st.integers(1, 20),
    st.integers(20, 60),
)
def test_every_phoneme_is_spoken_once_and_in_order(
    texts: list[str], factor: float, speed: float, shortest: int, longest: int
) -> None:
    sizes = PieceSizes(12, shortest, longest)
    pieces = [piece.phonemes for piece in pack(texts, Pace(factor, speed), sizes)]
    assert all(0 < len(piece) <= longest for piece in pieces)
    assert all(has_sound(piece) for piece in pieces)
    marks = str.maketrans("", "", " .,;ˈː")
    assert "".join(pieces).translate(marks) == "".join(texts).translate(marks)


@pytest.mark.parametrize("factor", [0.2, 0.3, 0.4, 0.45])
def test_no_word_is_left_to_be_said_alone(factor: float) -> None:
    for words in range(2, 60):
        *_, last = pack([sentence(words)], Pace(factor))
        assert len(last.phonemes.split()) > 1, words


def test_a_clause_is_not_cut_to_spare_a_short_one_after_it() -> None:
    pieces = pack([f"{WORD} {WORD} {WORD} {WORD}, {WORD}."], Pace(0.4))
    assert [piece.phonemes for piece in pieces] == [f"{WORD} {WORD} {WORD} {WORD},", f"{WORD}."]


def test_the_current_pace_does_not_flicker() -> None:
    measured: list[float | None] = [None]
    current = pace.CurrentPace(lambda: measured[-1])
    assert current() is None

    def at(factor: float) -> float:
        measured.append(factor)
        found = current()
        assert found is not None
        return found.real_time_factor

    assert [at(factor) for factor in (0.38, 0.41, 0.39, 0.34, 0.41)] == [0.4] * 5
    assert [at(factor) for factor in (0.43, 0.41, 0.39)] == [0.45] * 3
    assert [at(factor) for factor in (0.37, 2.4, 0.01, 0.051)] == [0.4, 3.0, 0.05, 0.05]
