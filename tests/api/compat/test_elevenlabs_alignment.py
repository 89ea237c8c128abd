"""Times of characters from times of words."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest

from kokoro_server.api.compat.elevenlabs.alignment import Alignment, Characters
from kokoro_server.synthesis.captions import Timing


def words_of(text: str, begin: float = 0.0, place: int = 0, pause: float = 0.1) -> list[Timing]:
    """Its words, each of which takes a tenth of a second for each letter."""
    words = list[Timing]()
    for match in re.finditer(r"\w+", text):
        start = (words[-1].end if words else begin) + pause
        words.append(
            Timing(match[0], start, start + 0.1 * len(match[0]), place + match.start(), place + match.end(), False)
        )
    return words


def aligned(text: str, until: float, words: list[Timing]) -> Alignment:
    characters = Characters(text)
    characters.say(words)
    alignment = characters.align_sentence(until)
    assert alignment is not None
    return alignment


def test_letters_share_the_time_of_their_word_and_marks_that_between_words() -> None:
    told = aligned("Ab, cd!", 1.0, words_of("Ab, cd!")).seconds()
    assert told["characters"] == list("Ab, cd!")
    assert told["character_start_times_seconds"] == pytest.approx([0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6])
    assert told["character_end_times_seconds"] == pytest.approx([0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 1.0])


def test_a_text_of_nothing_but_marks_fills_the_time() -> None:
    assert aligned("— …", 0.3, []).times == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_words_that_overlap_or_go_back_leave_the_times_in_order() -> None:
    words = [
        Timing("ab", 0.5, 0.9, 0, 2, False),
        Timing("bc", 0.2, 9.0, 1, 3, False),
        Timing("a", 0.1, 0.2, 0, 1, False),
    ]
    told = aligned("abc.", 1.0, words)
    assert all(before <= after for before, after in pairwise(told.times))
    assert told.times[-1] == 1.0


@pytest.mark.parametrize("seed", range(20))
def test_however_it_is_cut_each_character_is_told_once(seed: int) -> None:
    rng = random.Random(seed)
    text = "".join(rng.choice(["ab", "c", " ", "  ", ".", '" (', "é", "\n", "漢字。"]) for _ in range(60)) + "z"
    words, characters = words_of(text), Characters(text)
    told, until = list[Alignment](), 0.0
    while words:
        count = rng.randint(0, 3)
        characters.say(words[:count])
        until = (words[:count] or [words[0]])[-1].end
        words = words[count:]
        found = characters.align_words(until) if words else characters.align_sentence(until + 1)
        assert (found is not None) == (count > 0 or not words)
        told += [found] if found else []
    assert "".join(part.characters for part in told) == text
    times = [time for part in told for time in part.times]
    assert all(before <= after for before, after in pairwise(times))
    # Clients that count from message to message come to the same time.
    clock = 0
    for part in told:
        assert round(1000 * part.begin) == clock
        relative = part.milliseconds(cumulative=False)
        clock += relative["charStartTimesMs"][-1] + relative["charDurationsMs"][-1]  # type: ignore[operator]
    assert clock == round(1000 * (until + 1))


def test_sentences_without_a_space_between_them_keep_their_marks() -> None:
    characters = Characters()
    characters.append("你好。「再见」")
    for sentence, begin in (("你好。", 0.0), ("「再见」", 2.0)):
        place = characters.begin_sentence(sentence)
        characters.say(words_of(sentence, begin, place))
        spoken = characters.align_words(begin + 1)
        rest = characters.align_sentence(begin + 2)
        assert "".join(part.characters for part in (spoken, rest) if part) == sentence
        characters.forget()
    assert characters.pending == ""


def test_a_very_long_gap_is_told_as_it_was_shortened() -> None:
    characters = Characters()
    characters.append("One" + " " * 5000 + "two.")
    sentence = "One" + " " * 1000 + "two."
    assert characters.begin_sentence(sentence) == 0
    told = characters.align_sentence(1.0)
    assert told is not None
    assert told.characters == sentence
