from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server.text.cut_points import find_cuts, find_phrase_ends


def parts(phonemes: str, longest: int, first: int | None = None, words: tuple[tuple[int, int], ...] = ()) -> list[str]:
    cuts = [0, *find_cuts(phonemes, lambda: words, longest, first), len(phonemes)]
    return [phonemes[start:stop].strip() for start, stop in itertools.pairwise(cuts)]


def test_long_sentence_is_cut_at_the_best_mark_that_leaves_no_sliver() -> None:
    assert parts("aaa bbb. ccc, ddd eee", 16) == ["aaa bbb.", "ccc, ddd eee"]
    assert parts("aaa bbb, ccc ddd", 14) == ["aaa bbb,", "ccc ddd"]
    assert parts("a. bbbbbbb ccccccc", 14) == ["a. bbbbbbb", "ccccccc"]
    assert parts("aaaaaaaaaa", 4) == ["aaaa", "aaaa", "aa"]


def test_an_early_mark_is_better_than_a_cut_within_a_phrase() -> None:
    phrase = "bbbb " * 20
    assert parts(f"aaaa aaaa aaaa, {phrase}", 100) == ["aaaa aaaa aaaa,", phrase.strip()]


def test_a_part_may_be_longer_than_usual_to_keep_a_phrase_whole() -> None:
    phrase = "bbbb bbbb bbbb bbbb bbbb"
    assert find_cuts(f"{phrase}, {phrase}.", tuple, 100, usual=20) == [25]
    assert find_cuts(f"{phrase}.", tuple, 100, usual=20) == []
    assert find_cuts(f"{phrase}.", tuple, 20, usual=20) == [19]


def test_phrases_end_at_marks_and_brackets_but_not_near_an_end() -> None:
    assert find_phrase_ends("aaaa aaaa aaaa (bbbb bbbb bbbb) cccc cccc cccc.", tuple) == [14, 31]
    assert find_phrase_ends("aaaa, bbbb bbbb bbbb; cccc.", tuple) == []
    assert find_phrase_ends("aaaa bbbb bbbb—cccc cccc cccc.", tuple) == [15]


def test_a_closing_quote_stays_with_its_clause() -> None:
    assert parts("aaa “bbb,” ccc ddd", 14) == ["aaa “bbb,”", "ccc ddd"]


def test_a_sound_is_never_cut_in_two() -> None:
    assert parts("aaaːaaaː", 3) == ["aa", "aːa", "aaː"]
    assert all(not part.startswith("ː") for part in parts("kaːtaːna" * 10, 7))
    assert all(not part.endswith("ˈ") for part in parts("kˈatˈa" * 10, 7))


def test_a_word_of_several_sounds_is_cut_only_if_it_is_too_long() -> None:
    number = "aa bb cc"
    assert parts(f"xx yy {number} zz", 10, words=((0, 2), (3, 5), (6, 14), (15, 17))) == ["xx yy", number, "zz"]
    assert parts(number, 6, words=((0, 8),)) == ["aa bb", "cc"]


@pytest.mark.parametrize(
    ("phonemes", "expected"),
    [
        ("aaa. bbb", ["aaa.", "bbb"]),  # the first sentence
        ("aaa, bbb.", ["aaa, bbb."]),  # all of it fits
        ("aaa, bbb", ["aaa, bbb"]),
        ("aaa, bbb, cccccc.", ["aaa, bbb,", "cccccc."]),  # the last clause that fits
        ("aaaaaaaaaaaa; bbb, ccc.", ["aaaaaaaaaaaa;", "bbb, ccc."]),  # none fits: the first one
        ("aaaaa bbbbb ccccc", ["aaaaa bbbbb ccccc"]),  # there are none
        ("aaaaa—bbbbbbbb cccc", ["aaaaa—", "bbbbbbbb cccc"]),
        ("aaa... bbbbbbbb.", ["aaa...", "bbbbbbbb."]),
        ("aaa… bb.", ["aaa… bb."]),
        ("— aaa, bbb, cccc", ["— aaa,", "bbb, cccc"]),  # a mark before any sound ends nothing
        ("a.b c:d, eeeeee", ["a.b c:d,", "eeeeee"]),  # marks within words
    ],
)
def test_the_first_part_is_short_if_a_clause_ends_early(phonemes: str, expected: list[str]) -> None:
    assert parts(phonemes, 30, first=10) == expected


def test_the_first_part_is_cut_within_a_clause_only_at_the_limit() -> None:
    assert parts("aaaaa bbbbb ccccc ddddd", 20, first=10) == ["aaaaa bbbbb ccccc", "ddddd"]


@settings(deadline=None)
@given(
    st.text(alphabet="abˈː ,.;—…”", max_size=200),
    st.integers(1, 40),
    st.none() | st.integers(1, 40),
    st.lists(st.integers(0, 200), max_size=20),
)
def test_nothing_is_lost_and_nothing_too_long(phonemes: str, longest: int, first: int | None, ends: list[int]) -> None:
    phonemes = phonemes.strip()
    edges = sorted({end for end in ends if end <= len(phonemes)})
    split = parts(phonemes, longest, first, tuple(itertools.pairwise(edges)))
    assert all(len(part) <= longest for part in split)
    assert "".join(split).replace(" ", "") == phonemes.replace(" ", "")


def test_phonemes_without_end_take_linear_time() -> None:
    words = tuple((start, start + 4) for start in range(0, 200_000, 5))
    assert len(parts("abcd " * 40_000, 400, 50, words)) == 500
