"""Texts of many requests in few calls to G2P: results in order, and no request fails for another's text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kokoro_server.caller import caller
from kokoro_server.errors import G2PUnavailable, InvalidInput
from kokoro_server.g2p.languages import EN_GB, EN_US, Language
from kokoro_server.g2p.micro_batcher import MAX_CALLS_IN_FLIGHT, MAX_TEXTS_PER_CALL, MicroBatcher
from kokoro_server.g2p.result import G2PResult


class FakeService:
    """Answers when it is `open`; a text "bad" is refused."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], Language]] = []
        self.cancelled = 0
        self.open = asyncio.Event()

    async def convert(self, texts: Sequence[str], language: Language) -> list[G2PResult]:
        self.calls.append((list(texts), language))
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if "bad" in texts:
            raise InvalidInput(f"texts.{list(texts).index('bad')} is bad")
        return [G2PResult(text.upper(), None, "") for text in texts]


async def ask(batcher: MicroBatcher, *texts: str, language: Language = EN_US) -> list[str]:
    return [result.phonemes for result in await batcher.convert(texts, language)]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_many_requests_share_calls_and_each_gets_its_own_results() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert)
    requests = [asyncio.create_task(ask(batcher, f"a{n}", f"b{n}")) for n in range(20)]
    await settle()
    # The requests came in one turn of the event loop, so the first calls are full.
    assert [len(texts) for texts, _ in service.calls] == [MAX_TEXTS_PER_CALL] * MAX_CALLS_IN_FLIGHT
    service.open.set()
    assert await asyncio.gather(*requests) == [[f"A{n}", f"B{n}"] for n in range(20)]
    assert len(service.calls) < 20 / 2
    assert all(len(texts) <= MAX_TEXTS_PER_CALL for texts, _ in service.calls)


async def test_languages_are_not_mixed_and_a_long_text_goes_alone() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert)
    many = [f"t{n}" for n in range(MAX_TEXTS_PER_CALL + 5)]
    requests = [
        asyncio.create_task(ask(batcher, *texts, language=language))
        for texts, language in ((["1"], EN_US), (["2"], EN_US), (["3"], EN_US), (["4"], EN_GB), (many, EN_US))
    ]
    await settle()
    service.open.set()
    assert (await asyncio.gather(*requests))[-1] == [text.upper() for text in many]
    assert (["4"], EN_GB) in service.calls
    assert (many, EN_US) in service.calls


async def test_a_refused_text_fails_only_its_own_request() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert)
    requests = [asyncio.create_task(ask(batcher, text)) for text in ("1", "2", "3", "bad", "4")]
    await settle()
    assert len(service.calls) == 1
    service.open.set()
    one, two, three, bad, four = await asyncio.gather(*requests, return_exceptions=True)
    assert (one, two, three, four) == (["1"], ["2"], ["3"], ["4"])
    assert isinstance(bad, InvalidInput)
    assert "texts.0" in bad.message


async def test_a_call_that_nobody_waits_for_is_cancelled() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert)
    requests = []
    for text in ("1", "2", "3", "4"):
        requests.append(asyncio.create_task(ask(batcher, text)))
        await settle()
    for task in requests:
        task.cancel()
    await asyncio.gather(*requests, return_exceptions=True)
    await settle()
    assert service.cancelled == MAX_CALLS_IN_FLIGHT
    assert sum(len(texts) for texts, _ in service.calls) == MAX_CALLS_IN_FLIGHT  # "3" and "4" were never sent


async def test_closing_fails_the_calls_in_flight() -> None:
    batcher = MicroBatcher(FakeService().convert)
    request = asyncio.create_task(ask(batcher, "1"))
    await settle()
    await batcher.aclose()
    with pytest.raises(G2PUnavailable):
        await request


async def test_callers_take_turns() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert)
    caller.set("one")
    flood = [asyncio.create_task(ask(batcher, *["long"] * 60)) for _ in range(50)]
    await settle()
    caller.set("other")
    late = [asyncio.create_task(ask(batcher, f"late {n}")) for n in range(2)]
    await settle()
    service.open.set()
    assert await asyncio.gather(*late) == [["LATE 0"], ["LATE 1"]]
    await asyncio.gather(*flood)
    assert any("late 0" in texts for texts, _ in service.calls[: MAX_CALLS_IN_FLIGHT + 2])
