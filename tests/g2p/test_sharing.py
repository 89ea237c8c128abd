"""Calls to G2P that requests share: few of them, in order, and nobody pays for another's text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kokoro_server.errors import G2PUnavailable, InvalidInput
from kokoro_server.g2p.languages import EN_GB, EN_US, Language
from kokoro_server.g2p.phonemes import Phonemes
from kokoro_server.g2p.sharing import CALLS, TOGETHER, SharedCalls


class Service:
    """Answers when told to; a text "bad" is refused."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], Language]] = []
        self.cancelled = 0
        self.open = asyncio.Event()

    async def convert(self, texts: Sequence[str], language: Language) -> list[Phonemes]:
        self.calls.append((list(texts), language))
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if "bad" in texts:
            raise InvalidInput(f"texts.{list(texts).index('bad')} is bad")
        return [Phonemes(text.upper(), None, "") for text in texts]


async def ask(shared: SharedCalls, *texts: str, language: Language = EN_US) -> list[str]:
    return [spoken.phonemes for spoken in await shared.convert(texts, language)]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_crowd_shares_calls_and_each_gets_its_own() -> None:
    service = Service()
    shared = SharedCalls(service.convert)
    asked = [asyncio.create_task(ask(shared, f"a{n}", f"b{n}")) for n in range(20)]
    await settle()
    assert len(service.calls) == CALLS
    assert [len(texts) for texts, _ in service.calls] == [TOGETHER] * CALLS  # they came together
    service.open.set()
    assert await asyncio.gather(*asked) == [[f"A{n}", f"B{n}"] for n in range(20)]
    assert len(service.calls) < 20 / 2
    assert all(len(texts) <= TOGETHER for texts, _ in service.calls)


async def test_languages_are_not_mixed_and_a_long_text_goes_alone() -> None:
    service = Service()
    shared = SharedCalls(service.convert)
    many = [f"t{n}" for n in range(TOGETHER + 5)]
    asked = [
        asyncio.create_task(ask(shared, *texts, language=language))
        for texts, language in ((["1"], EN_US), (["2"], EN_US), (["3"], EN_US), (["4"], EN_GB), (many, EN_US))
    ]
    await settle()
    service.open.set()
    assert (await asyncio.gather(*asked))[-1] == [text.upper() for text in many]
    assert (["4"], EN_GB) in service.calls
    assert (many, EN_US) in service.calls


async def test_a_refused_text_costs_only_its_own_request() -> None:
    service = Service()
    shared = SharedCalls(service.convert)
    asked = [asyncio.create_task(ask(shared, text)) for text in ("1", "2", "3", "bad", "4")]
    await settle()
    assert len(service.calls) == 1
    service.open.set()
    one, two, three, bad, four = await asyncio.gather(*asked, return_exceptions=True)
    assert (one, two, three, four) == (["1"], ["2"], ["3"], ["4"])
    assert isinstance(bad, InvalidInput)
    assert "texts.0" in bad.message


async def test_what_nobody_waits_for_is_broken_off() -> None:
    service = Service()
    shared = SharedCalls(service.convert)
    asked = []
    for text in ("1", "2", "3", "4"):
        asked.append(asyncio.create_task(ask(shared, text)))
        await settle()
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    await settle()
    assert service.cancelled == CALLS
    assert sum(len(texts) for texts, _ in service.calls) == CALLS  # "3" and "4" were never sent


async def test_closing_fails_what_is_under_way() -> None:
    shared = SharedCalls(Service().convert)
    asked = asyncio.create_task(ask(shared, "1"))
    await settle()
    await shared.aclose()
    with pytest.raises(G2PUnavailable):
        await asked
