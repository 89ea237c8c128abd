from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server import languages
from kokoro_server.errors import InvalidInput, NothingToSay, Unspeakable
from kokoro_server.languages import Language
from kokoro_server.text.lexicon import Lexicon
from kokoro_server.text.pauses import Pause
from kokoro_server.text.pieces import Cutting, Piece, PieceSizes
from kokoro_server.text.reader import Reader
from kokoro_server.text.script import Delivery, Run
from kokoro_server.text.spoken import unspeakable
from kokoro_server.text.traced import Traced
from tests.text.fake_g2p import FakeG2P, fake_phonemes

DELIVERY = Delivery("", languages.EN_US)
SIZES = PieceSizes(first=10, shortest=20, longest=40)


async def listed(items: AsyncIterator[Piece | Pause]) -> list[Piece | Pause]:
    return [item async for item in items]


async def read(
    text: str,
    language: Language = languages.EN_US,
    sizes: PieceSizes = SIZES,
    cutting: Cutting = "short_start",
) -> list[Piece | Pause]:
    return await listed(Reader(FakeG2P(), sizes).pieces(text, language, cutting=cutting))


def word_pairs(text: str, items: list[Piece | Pause]) -> list[tuple[str, str]]:
    """Each word as it is written, and its phonemes."""
    pieces = [item for item in items if isinstance(item, Piece)]
    return [
        (text[word.start : word.end], piece.phonemes[word.phoneme_start : word.phoneme_end])
        for piece in pieces
        for word in piece.words
    ]


def texts(text: str, items: list[Piece | Pause]) -> list[str | float]:
    return [item.seconds if isinstance(item, Pause) else text[item.start : item.end] for item in items]


@pytest.mark.parametrize("cutting", ["short_start", "stream"])
async def test_the_first_piece_is_one_sentence_and_later_ones_are_longer(cutting: Cutting) -> None:
    text = "Hi. This is it. And so on, for good. End."
    assert texts(text, await read(text, cutting=cutting)) == ["Hi.", "This is it.", "And so on, for good.", "End."]


@pytest.mark.parametrize("cutting", ["short_start", "stream"])
async def test_a_long_first_sentence_begins_with_a_clause(cutting: Cutting) -> None:
    text = "Well, here it is; all of that and so on."
    assert texts(text, await read(text, cutting=cutting)) == ["Well,", "here it is;", "all of that and so on."]


async def test_a_clip_has_no_short_start_and_no_short_end() -> None:
    text = "Hi. This is it. And so on, for me. End."
    assert texts(text, await read(text, cutting="clip")) == ["Hi. This is it.", "And so on, for me. End."]
    text = "Well, here it is, too."
    assert texts(text, await read(text, cutting="clip")) == [text]
    text = "Well, here it is; all of that and so on."
    assert texts(text, await read(text, cutting="clip")) == ["Well, here it is;", "all of that and so on."]


async def test_ordinary_sentences_are_one_piece_of_a_clip_and_one_call_to_g2p() -> None:
    text = "This is the first sentence, and it is quite long. Here is another one, of some length. That is all of it."
    g2p = FakeG2P()
    items = await listed(Reader(g2p, PieceSizes()).pieces(text, languages.EN_US))
    assert (texts(text, items), len(g2p.calls)) == ([text], 1)
    streamed = await read(text, sizes=PieceSizes(), cutting="stream")
    assert texts(text, streamed)[0] == "This is the first sentence,"


async def test_a_clip_too_begins_short_where_the_first_piece_has_a_fixed_length() -> None:
    text = "Hi. This is it. And so on, for good. End."
    fixed = replace(SIZES, first_is_fixed=True)
    assert texts(text, await read(text, sizes=fixed, cutting="clip")) == texts(text, await read(text))


async def test_pauses_come_in_order_and_nothing_is_joined_over_them() -> None:
    text = "A. B.[pause:1s][pause:250ms] C. D. [pause:2s]"
    items = await read(text)
    assert texts(text, items) == ["A.", "B.", 1.0, 0.25, "C. D.", 2.0]
    assert not any(isinstance(item, Piece) and item.last for item in items)


@pytest.mark.parametrize("cutting", get_args(Cutting))
async def test_the_last_piece_says_so(cutting: Cutting) -> None:
    for text in (
        "One.",
        "One. Two. Three.",
        "One. 😀 ...",
        "[pause:1s] One",
        "This is a very long sentence, is it not?",
        "This is a very long sentence, is it not? 😀 " + "... " * 20,
    ):
        items = await read(text, cutting=cutting)
        flags = [item.last for item in items if isinstance(item, Piece)]
        assert flags == [False] * (len(flags) - 1) + [True], text


@pytest.mark.parametrize("cutting", get_args(Cutting))
async def test_a_word_or_two_that_are_all_of_a_text_get_a_period(cutting: Cutting) -> None:
    for text in ("help", "On it", " OK \n"):
        (piece,) = await read(text, cutting=cutting)
        assert isinstance(piece, Piece)
        assert piece.phonemes == f"{' '.join(map(fake_phonemes, text.split()))}."
        assert [text[word.start : word.end] for word in piece.words] == text.split()
        (sentence,) = (await Reader(FakeG2P(), SIZES).reading([Run(Traced.of(text), DELIVERY)])).sentences
        assert sentence.phonemes == piece.phonemes
    for text in ("Help!", "help,", "One and two and three and four", "[pause:1s] help", "Help! And go", "help…"):
        pieces = [item for item in await read(text, cutting=cutting) if isinstance(item, Piece)]
        assert "." not in "".join(piece.phonemes for piece in pieces), text


async def test_pauses_alone_are_enough() -> None:
    assert await read("[pause:1s] 😀 [pause:2s]") == [Pause(1.0), Pause(2.0)]


@pytest.mark.parametrize("text", ["", " \n", "😀 👍🏽", "...", "—", "\u200b", "?!"])
@pytest.mark.parametrize("language", [languages.EN_US, languages.ZH])
async def test_nothing_to_say_is_an_error_that_says_so(text: str, language: Language) -> None:
    with pytest.raises(NothingToSay, match=r"text (is empty|has nothing that can be spoken)") as caught:
        await read(text, language)
    assert caught.value.field == "text"


@pytest.mark.parametrize("text", ["All fine. [pause:99s]", "All fine. [a](/ↂ/)"])
async def test_an_error_late_in_the_text_comes_before_the_first_piece(text: str) -> None:
    g2p = FakeG2P()
    with pytest.raises(InvalidInput):
        await anext(Reader(g2p, SIZES).pieces(text, languages.EN_US))
    assert g2p.calls == []


async def test_the_first_piece_needs_one_small_call_however_long_the_text() -> None:
    g2p = FakeG2P()
    text = "This is the first sentence. " + "And another. " * 2000
    pieces = Reader(g2p, PieceSizes()).pieces(text, languages.EN_US, cutting="stream")
    await anext(pieces)
    assert g2p.calls == [["This is the first sentence.", "And another."]]
    await listed(pieces)
    sizes = [sum(map(len, call)) for call in g2p.calls]
    assert max(sizes) <= 4000
    assert max(map(len, g2p.calls)) == 64
    assert sum(map(len, g2p.calls)) == 2001


async def test_words_are_those_of_the_original_text() -> None:
    text = "  Hello,\t“wor\u200bld” –\r\nit's   10:30 [pause:1s] [Kokoro](/kokoɹo/)!"
    assert word_pairs(text, await read(text)) == [
        ("Hello", fake_phonemes("Hello")),
        ("wor\u200bld", fake_phonemes("world")),
        ("it's", fake_phonemes("its")),
        ("10:30", f"{fake_phonemes('ten')} {fake_phonemes('thirty')}"),
        ("Kokoro", "kokoɹo"),
    ]


async def test_a_pronunciation_that_touches_a_word_is_a_word_of_its_own() -> None:
    text = "un[do](/du/)ing [a](/ʌ/)[b](/bi/)"
    assert word_pairs(text, await read(text)) == [
        ("un", fake_phonemes("un")),
        ("do", "du"),
        ("ing", fake_phonemes("ing")),
        ("a", "ʌ"),
        ("b", "bi"),
    ]


async def test_other_languages_have_phrases() -> None:
    text = "¡Hola, mundo! Soy [Kokoro](/kokoɹo/), ¿y tú?"
    pieces = [item for item in await read(text, languages.ES) if isinstance(item, Piece)]
    assert [(text[word.start : word.end], word.phrase) for piece in pieces for word in piece.words] == [
        ("Hola", True),
        ("mundo", True),
        ("Soy", True),
        ("Kokoro", False),
        ("y tú", True),
    ]
    assert f"{fake_phonemes('Soy')} kokoɹo, {fake_phonemes('y')} {fake_phonemes('tú')}?" in pieces[-1].phonemes


async def test_chinese_has_phrases_without_spaces() -> None:
    text = "你好，世界。我是[小明](/ɕau/)！"
    assert word_pairs(text, await read(text, languages.ZH)) == [
        ("你好", fake_phonemes("你好")),
        ("世界", fake_phonemes("世界")),
        ("我是", fake_phonemes("我是")),
        ("小明", "ɕau"),
    ]


async def test_the_lexicon_changes_the_phonemes_and_not_the_offsets(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.toml"
    path.write_text('["*"]\nnginx = "engine x"\nKokoro = "/kokoɹo/"', encoding="utf-8")
    text = "Use nginx, [nginx](/nʤɪn/) or Kokoro’s."
    reader = Reader(FakeG2P(), SIZES, Lexicon.load(path))
    assert word_pairs(text, await listed(reader.pieces(text, languages.EN_US))) == [
        ("Use", fake_phonemes("Use")),
        ("nginx", f"{fake_phonemes('engine')} {fake_phonemes('x')}"),
        ("nginx", "nʤɪn"),
        ("or", fake_phonemes("or")),
        ("Kokoro’s", f"kokoɹo{fake_phonemes('s')}"),
    ]
    assert word_pairs(text, await listed(reader.pieces(text, languages.ES))) == [
        ("Use nginx", f"{fake_phonemes('Use')} {fake_phonemes('engine')} {fake_phonemes('x')}"),
        ("nginx", "nʤɪn"),
        ("or", fake_phonemes("or")),
        ("Kokoro", "kokoɹo"),
        ("s", fake_phonemes("s")),
    ]


async def test_each_call_is_timed() -> None:
    events: list[str] = []

    @contextmanager
    def timer() -> Iterator[None]:
        events.append("begun")
        yield
        events.append("ended")

    await listed(Reader(FakeG2P(), SIZES, g2p_timer=timer).pieces("One.", languages.EN_US))
    assert events == ["begun", "ended"]


async def test_phonemes_are_split_as_text_is() -> None:
    phonemes = "həlˈO wˈɜɹld! ðɪs\nɪz it. [pause:1s] ænd ðæt ɪz ɔl"
    items = await listed(Reader(FakeG2P(), SIZES).phoneme_pieces(phonemes, cutting="stream"))
    assert texts(phonemes, items) == ["həlˈO wˈɜɹld!", "ðɪs\nɪz it.", 1.0, "ænd ðæt ɪz ɔl"]
    assert word_pairs(phonemes, items) == [(word, word) for word in "həlˈO wˈɜɹld ðɪs ɪz it ænd ðæt ɪz ɔl".split()]
    assert [item.last for item in items if isinstance(item, Piece)] == [False, False, True]


@pytest.mark.parametrize(
    ("phonemes", "error", "message"),
    [
        ("həlO gↂ", InvalidInput, r"'g' \(U\+0067\), 'ↂ' \(U\+2182\)"),
        ("[pause:1h]", InvalidInput, "at most 30 s"),
        (" ", NothingToSay, "phonemes are empty"),
        ("ˈ, …", NothingToSay, "phonemes have no sound"),
    ],
)
async def test_bad_phonemes_are_refused(phonemes: str, error: type[InvalidInput], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        await listed(Reader(FakeG2P(), SIZES).phoneme_pieces(phonemes))
    assert caught.value.field == "phonemes"


words = st.sampled_from(
    "a be sea Dr. Smith e.g. U.S. 1,234.5 10:30 it's state-of-the-art a.org/d x@y.org wor\u200bld naive "
    "[Kokoro](/kokoɹo/) “so” (well) — … 😀 supercalifragilisticexpialidocious".split(" ")
) | st.just("[New York](/nu jɔɹk/)")
ends = st.sampled_from([" ", " ", " ", ", ", "; ", ". ", "! ", "... ", "\n", "\n\n", ".\t", " [pause:1s] ", "。"])
small_sizes = st.builds(
    lambda first, shortest, more: PieceSizes(first, shortest, shortest + more),
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(5, 60),
)
cuttings = st.sampled_from(get_args(Cutting))
sizes_for_words = st.builds(PieceSizes, st.integers(1, 60), st.integers(1, 70), st.integers(70, 200))


@settings(deadline=None)
@given(st.lists(st.tuples(words, ends), min_size=1, max_size=40), sizes_for_words, cuttings)
async def test_every_english_word_is_spoken_once_and_in_order(
    parts: list[tuple[str, str]], sizes: PieceSizes, cutting: Cutting
) -> None:
    text = "".join(word + end for word, end in parts)
    items = await read_or_nothing(text, languages.EN_US, sizes, cutting)
    check_pieces(text, items, sizes)
    for written, phonemes in word_pairs(text, items):
        if written.replace(" ", "").isalpha() and written not in ("Dr", "a"):  # others are said in other words
            assert phonemes == {"Kokoro": "kokoɹo", "New York": "nu jɔɹk"}.get(written, fake_phonemes(written))
    spoken = [word for written, _ in word_pairs(text, items) for word in re.findall(r"\w+", written)]
    assert spoken == re.findall(r"\w+", visible(text))


@settings(deadline=None)
@given(
    st.text(alphabet="aé ,.;:!?—…\n。，、[](/)1’“你あ\u0301👍\u200b", max_size=200),
    small_sizes,
    st.sampled_from(languages.LANGUAGES),
    cuttings,
)
async def test_nothing_is_lost_in_any_text(text: str, sizes: PieceSizes, language: Language, cutting: Cutting) -> None:
    try:
        check_pieces(text, await read_or_nothing(text, language, sizes, cutting), sizes)
    except Unspeakable:
        assert unspeakable.may_be_in(text, language)


async def read_or_nothing(text: str, language: Language, sizes: PieceSizes, cutting: Cutting) -> list[Piece | Pause]:
    try:
        return await read(text, language, sizes, cutting)
    except NothingToSay:
        return []


def visible(text: str) -> str:
    """`text` with everything blanked that is not read as text; the length stays."""
    hidden = re.sub(r"\[pause:1s\]", lambda match: " " * len(match[0]), text)
    return re.sub(r"\[([^\[\]\n]+)\]\(/[^()\n]+/\)", lambda match: f" {match[1]}".ljust(len(match[0])), hidden)


def check_pieces(text: str, items: list[Piece | Pause], sizes: PieceSizes) -> None:
    pieces = [item for item in items if isinstance(item, Piece)]
    assert all(0 < len(piece.phonemes) <= sizes.longest for piece in pieces)
    in_pieces = Counter(place for piece in pieces for place in range(piece.start, piece.end))
    in_words = Counter(place for piece in pieces for word in piece.words for place in range(word.start, word.end))
    for place, character in enumerate(visible(text)):
        if character.isalnum():
            assert in_pieces[place] == 1, (place, character)
            assert in_words[place] == 1, (place, character)
    end = 0
    for piece in pieces:
        last = 0
        for word in piece.words:
            assert piece.start <= word.start < word.end <= piece.end
            assert last <= word.phoneme_start < word.phoneme_end <= len(piece.phonemes)
            assert end <= word.start
            end, last = word.end, word.phoneme_end
