from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server.errors import ConfigError
from kokoro_server.text.phonemized import PhonemizedSentence, PhonemizedWord, has_sound
from kokoro_server.text.pieces import ClipPacker, Packer, Piece, PieceSizes
from kokoro_server.text.splitter import TextSpan


def phonemized(*phonemes: str) -> list[PhonemizedSentence]:
    return [PhonemizedSentence(TextSpan(i * 10, i * 10 + 9, "x" * 9), text) for i, text in enumerate(phonemes)]


def pack(sentences: list[PhonemizedSentence], shortest: int, longest: int, first: int | None = None) -> list[Piece]:
    return packed(Packer(shortest, longest, first), sentences)


def packed(packer: Packer, sentences: list[PhonemizedSentence]) -> list[Piece]:
    return [piece for sentence in sentences for piece in packer.add(sentence)] + packer.finish()


def test_short_sentences_share_a_piece_until_it_is_long_enough() -> None:
    pieces = pack(phonemized("aaaa.", "bbbb.", "cccc.", "dddd."), shortest=10, longest=20)
    assert [piece.phonemes for piece in pieces] == ["aaaa. bbbb.", "cccc. dddd."]
    assert [(piece.start, piece.end) for piece in pieces] == [(0, 19), (20, 39)]


def test_a_piece_never_grows_over_the_longest() -> None:
    pieces = [piece.phonemes for piece in pack(phonemized("aaaa.", "b" * 18 + "."), shortest=10, longest=20)]
    assert pieces == ["aaaa.", "b" * 18 + "."]


def test_a_piece_comes_out_as_soon_as_it_is_long_enough() -> None:
    packer = Packer(5, 20)
    assert [piece.phonemes for piece in packer.add(*phonemized("aaaa."))] == ["aaaa."]
    assert packer.finish() == []


def test_the_first_piece_is_not_joined_with_the_next_sentence() -> None:
    pieces = pack(phonemized("aa.", "bb.", "cc."), shortest=10, longest=20, first=5)
    assert [piece.phonemes for piece in pieces] == ["aa.", "bb. cc."]


def test_the_first_piece_may_be_the_beginning_of_a_sentence_whose_rest_is_joined() -> None:
    pieces = pack(phonemized("aa, bbbbb.", "cc."), shortest=10, longest=20, first=5)
    assert [piece.phonemes for piece in pieces] == ["aa,", "bbbbb. cc."]


@pytest.mark.parametrize("packer", [Packer(10, 40), ClipPacker(10, 40), Packer(10, 40, 20)])
def test_a_piece_ends_with_its_paragraph(packer: Packer) -> None:
    first, second, third = phonemized("aaaa.", "bb", "ccc.")
    second = replace(second, span=replace(second.span, ends_paragraph=True))
    pieces = packed(packer, [first, second, third])
    assert [(piece.phonemes, piece.ends) for piece in pieces[-2:]] in (
        [("aaaa. bb", "paragraph"), ("ccc.", "sentence")],
        [("bb", "paragraph"), ("ccc.", "sentence")],
    )


@pytest.mark.parametrize(
    ("sentences", "pieces"),
    [
        (["aaaa.", "bbbbbbbb.", "cc."], ["aaaa. bbbbbbbb. cc."]),
        (["aaaaaaaaaa.", "bbbbbbbbbb.", "cc."], ["aaaaaaaaaa.", "bbbbbbbbbb. cc."]),
        (["aaaaaaaaaa.", "bbbbbbbbbb."], ["aaaaaaaaaa.", "bbbbbbbbbb."]),
        (["aaaaaaaaaaaaaaaaaa.", "cc."], ["aaaaaaaaaaaaaaaaaa.", "cc."]),  # both together would be too long
        (["aa."], ["aa."]),
    ],
)
def test_the_short_end_of_a_clip_goes_with_the_piece_before_it(sentences: list[str], pieces: list[str]) -> None:
    packer = ClipPacker(10, 20)
    assert [piece.phonemes for piece in packed(packer, phonemized(*sentences))] == pieces
    assert packer.finish() == []


@pytest.mark.parametrize(
    ("phonemes", "ends"),
    [
        ("aa.", "sentence"),
        ("aa!”", "sentence"),
        ("aa…", "sentence"),
        ("aa", "sentence"),  # a heading
        ("aa,", "comma"),  # a line of verse
        ("aa:", "semicolon"),
    ],
)
def test_a_piece_tells_what_ends_with_it(phonemes: str, ends: str) -> None:
    assert [piece.ends for piece in pack(phonemized(phonemes), 10, 20)] == [ends]


def test_parts_of_a_sentence_tell_what_ends_with_them() -> None:
    pieces = pack(phonemized("aaa bbb, ccc ddd eee fff."), 10, 10)
    assert [(piece.phonemes, piece.ends) for piece in pieces] == [
        ("aaa bbb,", "comma"),
        ("ccc ddd", "none"),
        ("eee fff.", "sentence"),
    ]


def test_a_heading_gets_the_full_stop_that_it_needs_before_a_sentence() -> None:
    assert [piece.phonemes for piece in pack(phonemized("aa", "bb."), 10, 20)] == ["aa. bb."]


def test_a_sentence_that_was_too_long_for_one_span_gets_none() -> None:
    first, second = phonemized("aa", "bb.")
    first = PhonemizedSentence(TextSpan(0, 9, "x" * 9, continues=True), "aa")
    assert [piece.phonemes for piece in pack([first, second], 10, 20)] == ["aa bb."]


def test_words_follow_their_phonemes_into_the_pieces() -> None:
    text = 'one two, "three" four'
    words = (
        PhonemizedWord(0, 3, 0, 3),
        PhonemizedWord(4, 7, 4, 7),
        PhonemizedWord(10, 15, 10, 13),
        PhonemizedWord(17, 21, 15, 18),
    )
    pieces = pack([PhonemizedSentence(TextSpan(0, len(text), text), "aaa bbb, “ccc” ddd", lambda: words)], 10, 10)
    pairs = [(text[piece.start : piece.end], piece.phonemes) for piece in pieces]
    assert pairs == [("one two,", "aaa bbb,"), ('"three" four', "“ccc” ddd")]
    assert [[piece.phonemes[word.phoneme_start : word.phoneme_end] for word in piece.words] for piece in pieces] == [
        ["aaa", "bbb"],
        ["ccc", "ddd"],
    ]


def test_a_word_too_long_for_a_piece_is_shared_out() -> None:
    text = "one two three four"
    phrase = PhonemizedWord(0, len(text), 0, 15, phrase=True)
    pieces = pack([PhonemizedSentence(TextSpan(0, len(text), text), "aaa bbb ccc ddd", lambda: (phrase,))], 8, 8)
    assert [text[piece.start : piece.end] for piece in pieces] == ["one two", "three four"]
    assert [(word.phoneme_start, word.phoneme_end) for piece in pieces for word in piece.words] == [(0, 7), (0, 7)]


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 2, 1), (50, 100, 511)])
def test_sizes_that_make_no_sense_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match="MAX_TOKENS_PER_CHUNK"):
        PieceSizes(*sizes)


@settings(deadline=None)
@given(
    st.lists(st.text(alphabet="abˈː ,.;", min_size=1, max_size=60).filter(has_sound), max_size=8),
    st.integers(1, 20),
    st.integers(20, 40),
    st.none() | st.integers(1, 30),
)
def test_every_phoneme_is_spoken_once_and_in_order(
    texts: list[str], shortest: int, longest: int, first: int | None
) -> None:
    pieces = [piece.phonemes for piece in pack(phonemized(*texts), shortest, longest, first)]
    assert all(0 < len(piece) <= longest for piece in pieces)
    assert all(has_sound(piece) for piece in pieces)
    marks = str.maketrans("", "", " .,;ˈː")
    assert "".join(pieces).translate(marks) == "".join(texts).translate(marks)
