"""However long and odd a text is, others have their turn while it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kokoro_server import languages
from kokoro_server.errors import NothingToSay
from kokoro_server.text.pace import Pace
from kokoro_server.text.pieces import PieceSizes
from kokoro_server.text.reader import Reader

from .fake_g2p import FakeG2P


async def turns_of_others(items: AsyncIterator[object], pause: float = 0) -> int:
    """How often another task runs until all `items` have come.

    Where `items` are made in a thread, a task that never sleeps would leave it no time: `pause` is in seconds.
    """

    async def read() -> None:
        try:
            async for _ in items:
                pass
        except NothingToSay:
            pass

    reading, turns = asyncio.create_task(read()), 0
    while not reading.done():
        await asyncio.sleep(pause)
        turns += 1
    await reading
    return turns


@pytest.mark.parametrize("text", [". " * 50_000, "- \n" * 30_000, "A. " * 20_000, "か\n" * 20_000])
async def test_a_text_is_read_in_turns(text: str) -> None:
    language = languages.JA if text[0] == "か" else languages.EN_US
    assert await turns_of_others(Reader(FakeG2P(), PieceSizes()).pieces(text, language), pause=0.001) > 10


@pytest.mark.parametrize("phonemes", ["a. " * 30_000, "a, " * 30_000, "a" * 100_000])
@pytest.mark.parametrize("pace", [None, Pace(0.5)])
async def test_phonemes_are_read_in_turns(phonemes: str, pace: Pace | None) -> None:
    reader = Reader(FakeG2P(), PieceSizes(), pace=lambda: pace)
    assert await turns_of_others(reader.phoneme_pieces(phonemes, cutting="stream")) > 10
