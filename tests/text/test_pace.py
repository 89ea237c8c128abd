"""Piece sizes as arithmetic: pieces end with phrases, and simulated playback stalls only where a phrase is too long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import corpus
from kokoro_server import languages
from kokoro_server.engine.speed import LEVELS
from kokoro_server.text import pace
from kokoro_server.text.pace import Pace
from kokoro_server.text.phonemized import PhonemizedSentence, PhonemizedWord, has_sound
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


BEFORE_START = 0.4  # of the first piece's synthesis, on an engine that speaks early


def stalls(pieces: list[Piece], engine_pace: Pace) -> list[float]:
    """Seconds that a listener waits: before the first piece, and before each of the others."""
    ready = engine_pace.synthesis_seconds(len(pieces[0].phonemes))
    starts = ready if not engine_pace.share_after_start else BEFORE_START * ready
    ready = starts + max(engine_pace.share_after_start * ready, ready - starts)
    waits, plays_until = [starts], starts + pace.LEAD_SECONDS + engine_pace.playback_seconds(len(pieces[0].phonemes))
    for piece in pieces[1:]:
        ready += engine_pace.synthesis_seconds(len(piece.phonemes))
        waits.append(max(0.0, ready - plays_until))
        plays_until = max(plays_until, ready) + engine_pace.playback_seconds(len(piece.phonemes))
    return waits


TEXTS = {
    "ordinary": [sentence(9, 4), *[sentence(17, 6)] * 20],
    "short sentences": [sentence(2)] * 60,
    "a long one after a short one": [sentence(1), sentence(66, 5), *[sentence(20, 5)] * 5],
    "one word": [sentence(1)],
    "endless": [sentence(400, 5)],
}


@pytest.mark.parametrize("factor", [0.06, 0.1, 0.2, 0.3, 0.35, 0.4])
@pytest.mark.parametrize("name", TEXTS)
def test_a_fast_enough_machine_starts_within_about_a_second_and_never_stalls(name: str, factor: float) -> None:
    waits = stalls(pieces := pack(TEXTS[name], Pace(factor)), Pace(factor))
    assert waits[0] <= 1.25
    assert max(waits[1:], default=0) == 0, [len(piece.phonemes) for piece in pieces]


@pytest.mark.parametrize("factor", [0.06, 0.1, 0.2, 0.3, 0.35])
@pytest.mark.parametrize("name", TEXTS)
def test_one_that_speaks_early_starts_early_and_never_stalls(name: str, factor: float) -> None:
    early = Pace(factor, speaks_early=True)
    waits = stalls(pieces := pack(TEXTS[name], early), early)
    assert waits[0] <= 0.85
    assert max(waits[1:], default=0) == 0, [len(piece.phonemes) for piece in pieces]
    assert Pace(factor, speed=2.0, speaks_early=True).share_after_start == 0


@pytest.mark.parametrize("factor", [0.5, 0.6, 0.7, 0.8])
@pytest.mark.parametrize("name", TEXTS)
def test_a_slower_machine_starts_later_rather_than_stall(name: str, factor: float) -> None:
    waits = stalls(pieces := pack(TEXTS[name], Pace(factor)), Pace(factor))
    phrase = Pace(factor).synthesis_seconds(len(sentence(6)))
    assert waits[0] <= pace.MAX_START_SECONDS + phrase
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
    assert waits[0] <= pace.MAX_START_SECONDS + slow.synthesis_seconds(len(sentence(6)))
    longest = slow.synthesis_seconds(pace.MAX_STALLED_PHONEMES)
    assert max(waits[1:]) <= longest, [len(piece.phonemes) for piece in pieces]


@pytest.mark.parametrize("factor", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2])
@pytest.mark.parametrize("words", [8, 17, 40, 65])
def test_a_sentence_without_a_mark_is_never_cut(words: int, factor: float) -> None:
    assert [piece.phonemes for piece in pack([sentence(words)], Pace(factor))] == [sentence(words)]


@pytest.mark.parametrize("factor", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2])
def test_no_ordinary_sentence_is_cut_within_a_phrase(factor: float) -> None:
    """Real sentences, alone and at the head of a long text."""
    for real in corpus.sentences()[: corpus.BASIC]:
        for expected in (len(real["phonemes"]), 3000):
            packer = PacedPacker(PieceSizes(), Pace(factor), expected)
            pieces = packer.add(phonemized(**real)) + packer.finish()
            starts = [real["text"][piece.start :] for piece in pieces]
            for piece, following in zip(pieces, starts[1:], strict=False):
                assert piece.ends != "none" or following.startswith("and then hold"), real["text"]


def phonemized(text: str, phonemes: str) -> PhonemizedSentence:
    """A sentence with as many words as it has groups of phonemes."""
    written, said = re.finditer(r"[\w'’-]+", text), re.finditer(r"[^ ;:,.!?—…\"()“”]+", phonemes)
    words = tuple(PhonemizedWord(*one.span(), *other.span()) for one, other in zip(written, said, strict=True))
    return PhonemizedSentence(TextSpan(0, len(text), text), phonemes, lambda: words, languages.EN_US)


def test_which_machines_keep_up_with_a_text_of_any_length() -> None:
    assert [level for level in LEVELS if Pace(level).start().keeps_up][-1] == 0.8
    assert not Pace(0.85).start().keeps_up


def test_a_fast_machine_needs_no_plan() -> None:
    assert not Pace.from_measurement(0.03).needs_plan
    assert Pace.from_measurement(0.06).needs_plan


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), min_size=1, max_size=30),
    st.sampled_from([level for level in LEVELS if level <= 0.5]),  # at 0.8, one text of a thousand has such a wait
)
def test_in_a_text_of_any_shape_no_wait_is_within_a_sentence(shapes: list[tuple[int, int]], factor: float) -> None:
    waits = stalls(pieces := pack([sentence(*shape) for shape in shapes], Pace(factor)), Pace(factor))
    late = [number for number, wait in enumerate(waits) if number and wait > 0.01]  # nobody hears less
    assert all(pieces[number - 1].ends == "sentence" for number in late), [piece.phonemes for piece in pieces]


def test_pieces_grow_until_they_are_of_the_usual_size() -> None:
    lengths = [len(piece.phonemes) for piece in pack([sentence(17, 6)] * 20, Pace(0.4))]
    assert lengths[0] < 50
    assert lengths[1] < 80
    assert all(100 <= length <= 400 for length in lengths[4:-1])


def test_a_stream_starts_with_a_phrase_if_the_rest_of_its_sentence_can_follow_in_time() -> None:
    pieces = pack([f"{WORD} {WORD} {WORD} {WORD}, {WORD} {WORD} {WORD} {WORD}."], Pace(0.4))
    assert [piece.phonemes for piece in pieces] == [f"{WORD} {WORD} {WORD} {WORD},", f"{WORD} {WORD} {WORD} {WORD}."]
    assert pieces[0].ends == "comma"
    whole = f"{WORD} {WORD} {WORD} {WORD}, " + sentence(30)
    assert [piece.phonemes for piece in pack([whole], Pace(0.4))] == [whole]


def test_a_word_alone_is_no_piece() -> None:
    for text in (f"{WORD}, {WORD} {WORD} {WORD} {WORD} {WORD}.", f"{WORD} {WORD} {WORD} {WORD} {WORD}, {WORD}."):
        assert [piece.phonemes for piece in pack([text], Pace(0.4))] == [text]


def test_brackets_are_phrases() -> None:
    aside = f"({WORD} {WORD} {WORD} {WORD})"
    pieces = pack([f"{WORD} {WORD} {WORD} {aside} {WORD} {WORD} {WORD}."], Pace(0.4))
    assert [piece.phonemes for piece in pieces] == [f"{WORD} {WORD} {WORD}", aside, f"{WORD} {WORD} {WORD}."]


def test_a_pause_is_time_to_synthesize_more() -> None:
    long = [PhonemizedSentence(TextSpan(0, 9, "x" * 9), sentence(60, 3))]
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


def test_measurements_are_rounded_to_a_few_levels() -> None:
    assert Pace.from_measurement(0.21) == Pace.from_measurement(0.28) == Pace.from_measurement(0.34) == Pace(0.35)
    assert Pace.from_measurement(3.7) == Pace.from_measurement(1.0) == Pace(LEVELS[-1])


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
