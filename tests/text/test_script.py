"""Scripts: runs of text in several voices, read as one."""

from __future__ import annotations

from collections import UserList
from collections.abc import Iterator
from typing import Any

from kokoro_server import languages
from kokoro_server.errors import UnknownVoice
from kokoro_server.text import voice_tags
from kokoro_server.text.options import DEFAULT_OPTIONS
from kokoro_server.text.pace import Pace
from kokoro_server.text.pauses import Pause, split_pauses
from kokoro_server.text.pieces import Piece, PieceSizes
from kokoro_server.text.reader import Reader
from kokoro_server.text.script import Cast, Delivery, PlainText, Run, Script
from kokoro_server.text.sentence_buffer import SentenceBuffer
from kokoro_server.text.spoken import Claim
from kokoro_server.text.traced import Traced
from kokoro_server.text.written import WrittenText
from tests.text.fake_g2p import FakeG2P

TEXT = "One two. [voice:bm_b]Three [voice:ef_c]cuatro, cinco.\n[voice:bm_b]Six[/voice] seven."


class AnyVoice:
    def canonical(self, name: str) -> str:
        if name == "nobody":
            raise UnknownVoice("there is none", field="voice")
        return name

    def language(self, name: str) -> str:
        return name[0]


def script(text: str = TEXT) -> list[Run]:
    return voice_tags.split(Run(Traced.of(text), Delivery("af_a", languages.EN_US)), Cast(AnyVoice()))


async def pieces(parts: Script, g2p: FakeG2P | None = None, **reader: object) -> list[Piece | Pause]:
    made = Reader(g2p or FakeG2P(), PieceSizes(), pace=lambda: Pace(0.9) if reader else None)
    return [item async for item in made.script_pieces(parts, cutting="stream" if reader else "clip")]


async def test_no_piece_has_two_voices_and_none_is_left_out() -> None:
    for paced in ({}, {"paced": True}):
        found = [item for item in await pieces(script(), **paced) if isinstance(item, Piece)]
        assert [piece.run and piece.run.delivery.voice for piece in found] == ["af_a", "bm_b", "ef_c", "bm_b", "af_a"]
        assert [piece.last for piece in found] == [False] * 4 + [True]
        # A sentence that goes on with another voice has no pause of a sentence's end.
        assert [piece.ends for piece in found] == ["sentence", "none", "sentence", "none", "sentence"]


async def test_one_call_to_g2p_is_in_one_language() -> None:
    g2p = FakeG2P()
    await pieces(script(), g2p)
    assert [len(call) for call in g2p.calls] == [1, 1, 2, 1, 1]  # the Spanish sentence is two clauses
    g2p = FakeG2P()
    turns = [Run(Traced.of(f"Turn {n}.", 10 * n), Delivery(f"af_{n}", languages.EN_US)) for n in range(6)]
    await pieces([part for turn in turns for part in (turn, Pause(0.1))], g2p)
    assert len(g2p.calls) < 4


async def test_pauses_stand_where_they_are() -> None:
    first, *others = script("One.[voice:bm_b]Two. [pause:2s] Three.")
    found = await pieces([first, Pause(1.0), *others, Pause(3.0)])
    assert [item.seconds if isinstance(item, Pause) else item.phonemes.count(".") for item in found] == [
        1,
        1,
        1,
        2,
        1,
        3,
    ]


class Counted(UserList[Claim]):
    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Claim]:
        return (self[index] for index in range(len(self)))


def test_what_is_told_of_other_passages_is_not_looked_at() -> None:
    text = "a[pause:1ms]b " * 100
    told = Counted(Claim(place, place + 1, "x", "sub") for place in range(0, len(text), 14))
    written = WrittenText(list(split_pauses(text)), languages.EN_US, None, DEFAULT_OPTIONS, told)
    assert [claim for claim in written.claims() if claim.rule == "sub"] == list(told.data)
    assert told.looks < 10 * len(told)


def test_plain_text_has_no_tags() -> None:
    plain = PlainText(script())
    assert plain.text.split() == "One two. Three cuatro, cinco. Six seven.".split()
    for word in ("One", "Three", "cinco", "seven"):
        start, end = plain.locate(TEXT.index(word), TEXT.index(word) + len(word))
        assert plain.text[start:end] == word
    assert PlainText([]).text == ""


def test_what_is_no_tag_is_text_and_what_is_one_is_none() -> None:
    tagged = "[voice:bm_b]Say [voice] now, [/voice]not then."
    assert PlainText(script(tagged)).text.split() == "Say [voice] now, not then.".split()
    assert not voice_tags.has_tags("[voice] and [/voice](/vˈYs/)")
    assert voice_tags.has_tags("Its end [/voice] alone.")  # in the next turn, or after a flush


def test_a_tag_stays_with_its_sentence() -> None:
    buffer = SentenceBuffer()
    found = [*buffer.append("Hello. [voice:bm_b] He said so. "), *buffer.append("And she [voice:bm_b]did[/voice] too.")]
    assert [*found, *buffer.flush()] == ["Hello.", "[voice:bm_b] He said so.", "And she [voice:bm_b]did[/voice] too."]
