"""Texts of many requests in few calls to G2P: results in order, and no request fails for another's text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kokoro_server.callers.current import caller
from kokoro_server.errors import G2PFailed, G2PUnavailable, InvalidInput
from kokoro_server.g2p.micro_batcher import MAX_TEXTS_PER_CALL, CallBrokenOff, MicroBatcher, PendingText
from kokoro_server.g2p.result import G2PResult
from kokoro_server.languages import EN_GB, EN_US, Language

MAX_CALLS = 3


class FakeService:
    """Answers when it is `open`; a text "bad" is refused."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.languages: list[Language] = []
        self.cancelled = 0
        self.open = asyncio.Event()

    async def convert(self, texts: Sequence[PendingText]) -> list[G2PResult]:
        words = [text for text, _ in texts]
        self.calls.append(words)
        self.languages += (language for _, language in texts)
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if "bad" in words:
            raise InvalidInput(f"texts.{words.index('bad')} is bad")
        return [G2PResult(word.upper(), None, "") for word in words]


async def ask(batcher: MicroBatcher, *texts: str, language: Language = EN_US) -> list[str]:
    return [result.phonemes for result in await batcher.convert(texts, language)]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_many_requests_share_calls_and_each_gets_its_own_results() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert, MAX_CALLS)
    requests = [asyncio.create_task(ask(batcher, f"a{n}", f"b{n}")) for n in range(40)]
    await settle()
    # The requests came in one turn of the event loop, so the first calls are full.
    assert [len(texts) for texts in service.calls] == [MAX_TEXTS_PER_CALL] * MAX_CALLS
    service.open.set()
    assert await asyncio.gather(*requests) == [[f"A{n}", f"B{n}"] for n in range(40)]
    assert len(service.calls) < 40 / 2
    assert all(len(texts) <= MAX_TEXTS_PER_CALL for texts in service.calls)


async def test_few_requests_are_spread_over_the_free_calls() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert, MAX_CALLS)
    requests = [asyncio.create_task(ask(batcher, str(n))) for n in range(7)]
    await settle()
    assert [len(texts) for texts in service.calls] == [3, 2, 2]
    service.open.set()
    assert await asyncio.gather(*requests) == [[str(n)] for n in range(7)]


async def test_with_time_to_gather_requests_that_come_one_by_one_share_a_call() -> None:
    service = FakeService()
    service.open.set()
    batcher = MicroBatcher(service.convert, MAX_CALLS, gather=0.5)
    requests = []
    for n in range(5):
        requests.append(asyncio.create_task(ask(batcher, str(n))))
        await settle()
    assert await asyncio.gather(*requests) == [[str(n)] for n in range(5)]
    assert service.calls == [["0"], ["1", "2", "3", "4"]]
    await asyncio.sleep(0.6)
    later = asyncio.create_task(ask(batcher, "later"))
    await settle()
    assert service.calls[2:] == [["later"]]  # at once, as no call has begun of late
    assert await later == ["LATER"]


async def test_a_call_that_is_full_does_not_wait_for_more() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert, MAX_CALLS, gather=60.0)
    requests = [asyncio.create_task(ask(batcher, str(n))) for n in range(2 * MAX_TEXTS_PER_CALL + 1)]
    await settle()
    assert [len(texts) for texts in service.calls] == [MAX_TEXTS_PER_CALL] * 2
    service.open.set()
    await asyncio.gather(*requests[:-1])
    await batcher.aclose()  # what still waits for others is told so
    with pytest.raises(G2PUnavailable):
        await requests[-1]


async def test_a_lone_request_is_sent_at_once_and_a_later_one_does_not_wait_for_it() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert, MAX_CALLS)
    requests = []
    for n in range(MAX_CALLS):
        requests.append(asyncio.create_task(ask(batcher, str(n))))
        await settle()
        assert service.calls[n:] == [[str(n)]]
    service.open.set()
    await asyncio.gather(*requests)


async def test_languages_share_a_call_and_a_long_text_goes_alone() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert, 1)
    many = [f"t{n}" for n in range(MAX_TEXTS_PER_CALL + 5)]
    requests = [
        asyncio.create_task(ask(batcher, *texts, language=language))
        for texts, language in ((["1"], EN_US), (["2"], EN_GB), (["3"], EN_US), (many, EN_US))
    ]
    await settle()
    service.open.set()
    assert (await asyncio.gather(*requests))[-1] == [text.upper() for text in many]
    assert service.calls == [["1", "2", "3"], many]
    assert service.languages[:3] == [EN_US, EN_GB, EN_US]


async def test_a_refused_text_fails_only_its_own_request() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert, 1)
    requests = [asyncio.create_task(ask(batcher, text)) for text in ("1", "2", "3", "bad", "4")]
    await settle()
    assert len(service.calls) == 1
    service.open.set()
    one, two, three, bad, four = await asyncio.gather(*requests, return_exceptions=True)
    assert (one, two, three, four) == (["1"], ["2"], ["3"], ["4"])
    assert isinstance(bad, InvalidInput)
    assert "texts.0" in bad.message


async def test_what_nobody_waits_for_is_not_sent_again_for_anothers_refused_text() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert, 1)
    requests = [asyncio.create_task(ask(batcher, text)) for text in ("bad", "1", "2")]
    await settle()
    requests[1].cancel()
    await settle()
    service.open.set()
    await asyncio.gather(*requests, return_exceptions=True)
    assert service.calls == [["bad", "1", "2"], ["bad"], ["2"]]


async def test_a_call_that_nobody_waits_for_is_cancelled() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert, MAX_CALLS)
    requests = []
    for text in ("1", "2", "3", "4", "5"):
        requests.append(asyncio.create_task(ask(batcher, text)))
        await settle()
    for task in requests:
        task.cancel()
    await asyncio.gather(*requests, return_exceptions=True)
    await settle()
    assert service.cancelled == MAX_CALLS
    assert sum(len(texts) for texts in service.calls) == MAX_CALLS  # "4" and "5" were never sent


async def test_closing_fails_the_calls_in_flight() -> None:
    batcher = MicroBatcher(FakeService().convert, MAX_CALLS)
    request = asyncio.create_task(ask(batcher, "1"))
    await settle()
    await batcher.aclose()
    with pytest.raises(G2PUnavailable):
        await request


@pytest.mark.parametrize("rounds", [0, 1, 5])
@pytest.mark.parametrize("gather", [0.0, 0.05, 60.0])
async def test_closing_fails_what_waits_for_a_call_too(gather: float, rounds: int) -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert, 1, gather)
    requests = [asyncio.create_task(ask(batcher, *[str(n)] * 10)) for n in range(3)]
    for _ in range(rounds):
        await asyncio.sleep(0)
    sent = len(service.calls)
    await batcher.aclose()
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [G2PUnavailable] * 3
    await settle()
    assert len(service.calls) == sent  # nothing is sent by what was closed
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_callers_take_turns() -> None:
    service = FakeService()
    batcher = MicroBatcher(service.convert, MAX_CALLS)
    caller.set("one")
    flood = [asyncio.create_task(ask(batcher, *["long"] * 60)) for _ in range(50)]
    await settle()
    caller.set("other")
    late = [asyncio.create_task(ask(batcher, f"late {n}")) for n in range(2)]
    await settle()
    service.open.set()
    assert await asyncio.gather(*late) == [["LATE 0"], ["LATE 1"]]
    await asyncio.gather(*flood)
    assert any("late 0" in texts for texts in service.calls[: MAX_CALLS + 2])


async def test_a_text_that_ends_the_service_twice_fails_alone() -> None:
    calls: list[list[str]] = []

    async def convert(texts: Sequence[PendingText]) -> list[G2PResult]:
        calls.append([text for text, _ in texts])
        if "poison" in calls[-1]:
            raise CallBrokenOff("it has ended")
        return [G2PResult(text) for text, _ in texts]

    batcher = MicroBatcher(convert, 1)
    tasks = [asyncio.create_task(batcher.convert([text], EN_US)) for text in ("a", "poison", "b")]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [results[0], results[2]] == [[G2PResult("a")], [G2PResult("b")]]
    assert isinstance(results[1], G2PFailed)
    assert "'poison'" in results[1].message
    assert calls == [["a", "poison", "b"], ["a"], ["poison"], ["b"]]
