from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from kokoro_server import languages
from kokoro_server.errors import (
    G2PFailed,
    G2PUnavailable,
    InvalidInput,
    KokoroError,
    NothingToSay,
    TextTooLong,
    UnknownLanguage,
)
from kokoro_server.g2p.client import MAX_CALLS_EVER, G2PClient
from kokoro_server.g2p.recent_texts import MOST_KEPT
from kokoro_server.g2p.result import G2PResult, Token
from kokoro_server.languages import Language

from .conftest import SOURCE_TREE


def client_of(answer: Callable[[httpx.Request], httpx.Response]) -> G2PClient:
    return G2PClient("http://g2p.test", 1, transport=httpx.MockTransport(answer))


def answering(status: int, body: Any) -> G2PClient:
    return client_of(lambda _request: httpx.Response(status, json=body))


async def test_english_comes_with_tokens(client: G2PClient) -> None:
    results = await client.convert(["Hello there.", "Bye!"], languages.EN_US)
    assert results[0] == G2PResult(
        "həlˈO ðˈɛɹ.", (Token("Hello", " ", "həlˈO"), Token("there", "", "ðˈɛɹ"), Token(".", "", "."))
    )
    assert results[1].phonemes == "bˈI!"


async def test_so_do_other_languages(client: G2PClient) -> None:
    tokens = Token("Hola", "", "ˈola"), Token("", "", ".")
    assert await client.convert(["Hola."], languages.ES) == [G2PResult("ˈola.", tokens)]


async def test_more_texts_than_fit_one_call_are_converted_in_order(client: G2PClient) -> None:
    texts = [str(number) for number in range(300)]
    results = await client.convert(texts, languages.EN_US)
    assert ["".join(token.text for token in result.tokens or ()) for result in results] == texts


async def test_no_texts_need_no_service() -> None:
    client = client_of(lambda _request: pytest.fail("asked"))
    assert await client.convert([], languages.EN_US) == []


async def test_health(client: G2PClient) -> None:
    health = await client.health()
    assert health["status"] == "ok"
    assert health["languages"]["en-US"] == "ready"


@pytest.mark.parametrize(
    ("text", "language", "error", "field"),
    [
        ("  \n", languages.EN_US, NothingToSay, "texts.1"),
        ("x" * 10_001, languages.EN_US, TextTooLong, "texts.1"),
        ("hello", Language("tlh", "k", "Klingon"), UnknownLanguage, "language"),
        ("lone surrogate \ud800", languages.EN_US, InvalidInput, "text"),
    ],
)
async def test_what_the_service_refuses(
    client: G2PClient, text: str, language: Language, error: type[KokoroError], field: str
) -> None:
    with pytest.raises(error) as refused:
        await client.convert(["fine", text], language)
    assert refused.value.field == field
    assert refused.value.message


async def test_nobody_listening_is_unavailable_with_a_time_to_retry() -> None:
    client = G2PClient("http://127.0.0.1:1", 1)
    with pytest.raises(G2PUnavailable) as error:
        await client.convert(["hello"], languages.EN_US)
    assert error.value.retry_after
    await client.aclose()


async def test_a_dropped_connection_is_tried_once_more() -> None:
    calls = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        if len(calls) == 1:
            raise httpx.RemoteProtocolError("Server disconnected")
        return httpx.Response(200, json={"status": "ok"})

    assert await client_of(answer).health() == {"status": "ok"}


async def test_a_service_that_does_not_answer_in_time_is_unavailable() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("too slow", request=request)

    with pytest.raises(G2PUnavailable, match="in time"):
        await client_of(answer).convert(["hello"], languages.EN_US)


async def test_a_failing_service_is_unavailable() -> None:
    body = {"error": {"code": "internal_error", "message": "out of luck", "field": None}}
    with pytest.raises(G2PUnavailable, match="out of luck") as error:
        await answering(500, body).convert(["hello"], languages.EN_US)
    assert error.value.retry_after


async def test_a_text_that_breaks_the_service_is_a_failure_not_worth_retrying() -> None:
    body = {"error": {"code": "g2p_failed", "message": "cannot be converted", "field": None}}
    with pytest.raises(G2PFailed, match="cannot be converted"):
        await answering(502, body).convert(["hello"], languages.EN_US)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, {}),
        (200, []),
        (200, {"results": []}),
        (200, {"results": None}),
        (200, {"results": ["həlˈO"]}),
        (200, {"results": [{"phonemes": 7}]}),
        (200, {"results": [{"phonemes": None}]}),
        (200, {"results": [{"phonemes": "həlˈO", "tokens": ["Hello"]}]}),
        (200, {"results": [{"phonemes": "həlˈO", "tokens": [{"text": "Hello", "whitespace": "", "phonemes": 7}]}]}),
        (200, {"results": [{"phonemes": "həlˈO", "dropped": [7]}]}),
        (404, {"detail": "Not Found"}),
        (302, None),
    ],
)
async def test_an_answer_that_makes_no_sense_is_a_failure(status: int, body: Any) -> None:
    with pytest.raises(G2PFailed):
        await answering(status, body).convert(["hello"], languages.EN_US)


async def test_a_web_page_in_place_of_the_service_is_a_failure() -> None:
    client = client_of(lambda _request: httpx.Response(200, html="<h1>Welcome</h1>"))
    with pytest.raises(G2PFailed, match="JSON"):
        await client.health()


async def settle() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


class Counting:
    """A service that answers when it is `open` and keeps the bodies of its calls. `workers` is what it tells."""

    def __init__(self, workers: str | None, max_calls: int = MAX_CALLS_EVER) -> None:
        self.workers = workers
        self.bodies: list[dict[str, Any]] = []
        self.priorities: list[str | None] = []
        self.open = asyncio.Event()
        self.numbers = itertools.count()
        self.client = G2PClient("http://g2p.test", 1, transport=httpx.MockTransport(self.answer), max_calls=max_calls)

    async def answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        self.priorities.append(request.headers.get("x-priority"))
        await self.open.wait()
        headers = {"X-G2P-Workers": self.workers} if self.workers else {}
        return httpx.Response(200, json={"results": [{"phonemes": text} for text in body["texts"]]}, headers=headers)

    def close(self) -> None:
        """Answer no more, and forget the calls of before."""
        self.bodies, self.priorities, self.open = [], [], asyncio.Event()

    async def ask_at_once(self, count: int, *spoken: Language, bulk: bool = False) -> list[dict[str, Any]]:
        """The calls that are made of so many requests for each language before any of them is answered."""
        self.close()
        numbers = [str(next(self.numbers)) for _ in range(count)]  # no text twice: recent ones need no call
        asked = [(number, language) for number in numbers for language in spoken]
        requests = [asyncio.create_task(self.client.convert([text], language, bulk=bulk)) for text, language in asked]
        await settle()
        bodies = list(self.bodies)
        self.open.set()
        assert [result[0].phonemes for result in await asyncio.gather(*requests)] == [text for text, _ in asked]
        return bodies


async def test_both_kinds_of_english_share_calls_once_the_service_tells_its_workers() -> None:
    service = Counting("4")
    first = await service.ask_at_once(40, languages.EN_US, languages.EN_GB)
    assert {body["lang"] for body in first} == {"en-US", "en-GB"}
    assert len(first) == 2 * 2
    told = await service.ask_at_once(40, languages.EN_US, languages.EN_GB)
    assert len(told) == 4 + 1
    assert all(set(body["langs"]) == {"en-US", "en-GB"} for body in told)


async def test_whoever_wants_few_calls_has_more_texts_in_each() -> None:
    service = Counting("8", max_calls=3)
    await service.ask_at_once(1, languages.EN_US)
    assert [len(body["texts"]) for body in await service.ask_at_once(12, languages.EN_US)] == [4, 4, 4]


async def test_languages_that_may_be_slow_have_calls_of_their_own() -> None:
    service = Counting("4")
    await service.ask_at_once(1, languages.EN_US)
    bodies = await service.ask_at_once(10, languages.EN_US, languages.JA, languages.ES)
    assert {body["lang"] for body in bodies} == {"en-US", "ja", "es"}
    assert len([body for body in bodies if body["lang"] == "en-US"]) == 4 + 1
    assert len([body for body in bodies if body["lang"] == "ja"]) == 2


@pytest.mark.parametrize("workers", [None, "many"])
async def test_a_service_that_tells_nothing_gets_one_language_a_call(workers: str | None) -> None:
    service = Counting(workers)
    for _ in range(2):
        bodies = await service.ask_at_once(40, languages.EN_US, languages.EN_GB)
        assert [body.keys() for body in bodies] == [{"texts", "lang"}] * 4


async def test_a_service_that_no_longer_takes_languages_together_costs_no_request() -> None:
    service = Counting("4")
    await service.ask_at_once(1, languages.EN_US)

    async def older(request: httpx.Request) -> httpx.Response:
        service.workers = None
        if b"langs" in request.content:
            error = {"code": "invalid_input", "message": "langs: extra inputs are not permitted", "field": "langs"}
            return httpx.Response(422, json={"error": error})
        return await Counting.answer(service, request)

    service.client._transport = httpx.MockTransport(older)
    await service.ask_at_once(10, languages.EN_US, languages.EN_GB)
    bodies = await service.ask_at_once(10, languages.EN_US, languages.EN_GB)
    assert {body["lang"] for body in bodies} == {"en-US", "en-GB"}


@pytest.mark.parametrize(("workers", "calls"), [("4", 4), ("1", 1), (None, 1)])
async def test_bulk_has_calls_of_its_own_which_are_marked_and_fewer(workers: str | None, calls: int) -> None:
    service = Counting(workers)
    await service.ask_at_once(1, languages.EN_US)
    assert service.priorities == [None]
    bodies = await service.ask_at_once(100, languages.EN_US, bulk=True)
    assert len(bodies) == calls
    assert set(service.priorities) == {"bulk"}
    assert all(body.keys() == {"texts", "lang"} for body in bodies)  # which services of old take, too


async def test_where_one_call_is_allowed_bulk_has_one() -> None:
    service = Counting("8", max_calls=1)
    await service.ask_at_once(1, languages.EN_US)
    assert len(await service.ask_at_once(40, languages.EN_US, bulk=True)) == 1


async def test_other_texts_do_not_wait_for_bulk() -> None:
    service = Counting("2")
    await service.ask_at_once(1, languages.EN_US)
    service.close()
    flood = [asyncio.create_task(service.client.convert(["bulk"], languages.EN_US, bulk=True)) for _ in range(200)]
    await settle()
    assert service.priorities == ["bulk"] * 2
    others = []
    for word in ("one", "two", "three"):
        others.append(asyncio.create_task(service.client.convert([word], languages.EN_US)))
        await settle()
    assert [body["texts"] for body in service.bodies[2:]] == [["one"], ["two"], ["three"]]
    assert service.priorities[2:] == [None] * 3
    service.open.set()
    await asyncio.gather(*flood, *others)
    assert all(len(set(body["texts"])) == 1 for body in service.bodies)


async def test_a_short_text_that_comes_again_needs_no_call() -> None:
    service = Counting("1")
    service.open.set()
    first = await service.client.convert(["OK", "Submit button"], languages.EN_US)
    assert await service.client.convert(["OK", "Submit button"], languages.EN_US) == first
    assert await service.client.convert(["OK"], languages.EN_US) == first[:1]
    assert len(service.bodies) == 1


async def test_a_short_text_in_another_language_is_another_text() -> None:
    service = Counting("1")
    service.open.set()
    for language in (languages.EN_US, languages.ES):
        await service.client.convert(["no"], language)
    assert [body["lang"] for body in service.bodies] == ["en-US", "es"]


async def test_a_text_that_the_service_could_not_convert_is_sent_again() -> None:
    answers = iter((httpx.Response(500), httpx.Response(200, json={"results": [{"phonemes": "ok"}]})))
    client = client_of(lambda _request: next(answers))
    with pytest.raises(KokoroError):
        await client.convert(["OK"], languages.EN_US)
    assert await client.convert(["OK"], languages.EN_US) == [G2PResult("ok")]


async def test_recent_short_texts_are_read_while_the_service_is_away() -> None:
    service = Counting("1")
    service.open.set()
    known = await service.client.convert(["OK"], languages.EN_US)
    service.client._transport = httpx.MockTransport(lambda _request: httpx.Response(503))
    assert await service.client.convert(["OK"], languages.EN_US) == known


async def test_the_texts_of_bulk_do_not_displace_those_that_come_again() -> None:
    service = Counting("1")
    service.open.set()
    await service.client.convert(["OK"], languages.EN_US)
    for number in range(MOST_KEPT // 200):
        await service.client.convert([f"{number} {line}" for line in range(200)], languages.EN_US, bulk=True)
    service.close()
    await service.client.convert(["OK"], languages.EN_US)
    assert service.bodies == []


async def test_a_name_and_password_in_the_address_are_sent() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=dict(request.headers))

    client = G2PClient("http://me:s%20ecret@g2p.test/", 1, transport=httpx.MockTransport(answer))
    headers = await client.health()
    assert headers["authorization"] == httpx.BasicAuth("me", "s ecret")._auth_header
    assert headers["host"] == "g2p.test"


def test_client_and_child_load_no_gpl_code() -> None:
    check = (
        "import sys, kokoro_server.g2p.client, kokoro_server.g2p.child\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'misaki', 'phonemizer', 'espeakng_loader'}))"
    )
    found = subprocess.run([sys.executable, "-c", check], env=SOURCE_TREE, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
