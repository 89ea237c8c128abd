"""Which texts are cut by an engine's level of speed, and which are not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server import languages
from kokoro_server.errors import NothingToSay, Unspeakable
from kokoro_server.text.pace import MIN_PHONEMES, Pace
from kokoro_server.text.pauses import Pause
from kokoro_server.text.pieces import Cutting, Piece, PieceSizes
from kokoro_server.text.reader import Reader
from tests.text.fake_g2p import FakeG2P
from tests.text.test_reader import check_pieces

LONG = "A sentence with a mark, which goes on and on, for so many words, that it takes a slow machine a while. "
TEXT = LONG + "Then a short one. " + LONG
PHONEMES = "ðə kwˈɪk bɹˈWn fˈɑks, ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, wˌIl sˈɛvən wˈɪzəɹdz kwˈIətli wˈɑʧ fɹʌm ðə hˈɪl. " * 2
SLOW = Pace(0.4)


async def lengths(items: AsyncIterator[Piece | Pause]) -> list[int]:
    return [len(item.phonemes) async for item in items if isinstance(item, Piece)]


def reader(pace: Pace | None, sizes: PieceSizes | None = None) -> Reader:
    return Reader(FakeG2P(), sizes or PieceSizes(), pace=lambda: pace)


async def piece_lengths(pace: Pace | None, sizes: PieceSizes | None = None, *, cutting: Cutting) -> list[int]:
    return await lengths(reader(pace, sizes).pieces(TEXT, languages.EN_US, cutting=cutting))


async def test_only_a_stream_is_cut_by_the_speed() -> None:
    for cutting in ("clip", "short_start"):
        assert await piece_lengths(SLOW, cutting=cutting) == await piece_lengths(None, cutting=cutting)
    streamed = await piece_lengths(SLOW, cutting="stream")
    assert streamed[:2] != (await piece_lengths(SLOW, cutting="short_start"))[:2]


async def test_a_stream_of_phonemes_is_cut_by_the_speed_too() -> None:
    whole = await lengths(reader(SLOW).phoneme_pieces(PHONEMES, cutting="short_start"))
    streamed = await lengths(reader(SLOW).phoneme_pieces(PHONEMES, cutting="stream"))
    assert whole == await lengths(reader(None).phoneme_pieces(PHONEMES, cutting="stream"))
    assert streamed[0] <= SLOW.start().max_phonemes < whole[0]


async def test_each_stream_is_cut_by_the_speed_of_its_time() -> None:
    now = [Pace(0.4)]
    same = Reader(FakeG2P(), PieceSizes(), pace=lambda: now[-1])
    fast = await lengths(same.pieces(TEXT, languages.EN_US, cutting="stream"))
    now.append(Pace(0.7))
    assert await lengths(same.pieces(TEXT, languages.EN_US, cutting="stream")) != fast
    now.append(Pace(0.4))
    assert await lengths(same.pieces(TEXT, languages.EN_US, cutting="stream")) == fast


async def test_a_stream_has_a_plain_short_start_where_the_speed_does_not_matter() -> None:
    short = await piece_lengths(None, cutting="short_start")
    assert await piece_lengths(None, cutting="stream") == short
    assert await piece_lengths(Pace(0.05), cutting="stream") == short
    fixed_first = PieceSizes(first_is_fixed=True)
    for cutting in get_args(Cutting):
        assert await piece_lengths(SLOW, fixed_first, cutting=cutting) == short


async def test_a_text_with_more_phonemes_than_expected_is_not_cut_to_bits() -> None:
    twice = "A text that is soon at its end."  # `FakeG2P` has two phonemes for a letter
    assert min(await lengths(reader(Pace(0.9)).pieces(twice, languages.EN_US, cutting="stream"))) >= MIN_PHONEMES


async def test_a_phrase_that_is_cut_ends_with_its_piece() -> None:
    text = "una frase larga que sigue, y sigue y sigue, hasta que por fin, y sin más, llega a su punto final."
    items = [item async for item in reader(SLOW).pieces(text, languages.ES, cutting="stream")]
    assert len(items) > 1
    check_pieces(text, items, PieceSizes())


@settings(deadline=None)
@given(
    st.text(alphabet="aé ,.;:!?—…\n。，、[](/)1’“你あ\u0301👍\u200b", max_size=200),
    st.sampled_from(languages.LANGUAGES),
    st.sampled_from((0.1, 0.4, 0.7, 1.2)),
)
async def test_nothing_is_lost_in_a_stream(text: str, language: languages.Language, factor: float) -> None:
    try:
        items = [item async for item in reader(Pace(factor)).pieces(text, language, cutting="stream")]
    except (NothingToSay, Unspeakable):
        return
    check_pieces(text, items, PieceSizes())
