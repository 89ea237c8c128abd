"""The client of the G2P service. Loads none of the libraries that the service uses."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import httpx

from kokoro_server.callers.current import read_by
from kokoro_server.config.public import without_credentials
from kokoro_server.errors import (
    Expired,
    G2PFailed,
    G2PUnavailable,
    InvalidInput,
    KokoroError,
    LanguageNotInstalled,
    NothingToSay,
    TextTooLong,
    UnknownLanguage,
)
from kokoro_server.g2p.extras import NOT_INSTALLED
from kokoro_server.g2p.http_transport import KeepAliveTransport, ResponseTooLarge
from kokoro_server.g2p.micro_batcher import CallBrokenOff, MicroBatcher, PendingText
from kokoro_server.g2p.recent_texts import RecentTexts
from kokoro_server.g2p.result import G2PResult, Token
from kokoro_server.g2p.schemas import MAX_BATCH_TEXTS, PRIORITY_HEADER, WORKERS_HEADER
from kokoro_server.languages import ENGLISH, Language
from kokoro_server.observability import tracing
from kokoro_server.observability.conditions import Condition
from kokoro_server.runtime.backoff import Backoff

log = logging.getLogger(__name__)

ADDRESS = "what is at G2P_SERVICE_URL"
MAX_CALLS = 2  # in flight for a language that has one worker: one is worked on and one waits
MAX_CALLS_EVER = 64
MAX_WORKERS = 256  # whatever number the service gives
BULK_GATHER = 0.05  # seconds that a bulk text waits for more: a call costs the service as much as six texts do
RETRY_AFTER = 1.0  # seconds; a child that died is back in two or three
# Seconds of an outage that texts wait out, if their requests have as long. In a longer one they are refused at once.
# So are texts for a service at a fixed address that has never answered: it may be the wrong address.
PATIENCE = 30.0
RETRY = Backoff(0.1, longest=1.0)
WATCH_INTERVAL, AWAY_INTERVAL = 1.0, 0.2  # seconds between two looks whether the service answers, or answers again
AWAY_STATUSES = (502, 503, 504)  # of a service that stops or starts, or of a proxy before it
HttpHeaders = dict[str, str]
NORMAL: HttpHeaders = {}
BULK: HttpHeaders = {PRIORITY_HEADER: "bulk"}
_INPUT_ERRORS: dict[str, type[KokoroError]] = {
    error.code: error for error in (UnknownLanguage, LanguageNotInstalled, InvalidInput, NothingToSay, TextTooLong)
}


class _Away(G2PUnavailable, code=G2PUnavailable.code):
    """The service did not get the request, which may be sent again when it is back."""


class G2PClient:
    """`url` may be a function that returns the service's present address, or raises G2PUnavailable.

    `condition` is set while the service does not answer. A short outage is waited out.
    """

    def __init__(
        self,
        url: str | Callable[[], str],
        timeout: float,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        condition: Condition | None = None,
        max_calls: int = MAX_CALLS_EVER,
    ) -> None:
        """`max_calls` in flight at once, however many workers the service has."""
        self._condition = condition
        self._max_calls = max_calls
        self._url = url if callable(url) else lambda: url
        self._patience = PATIENCE if callable(url) else 0.0
        # Requests go straight to the transport: an httpx client would take most of the time of an exchange.
        self._transport = transport or KeepAliveTransport()
        self._extensions = {"timeout": httpx.Timeout(timeout).as_dict()}
        # By texts that may share a call: both kinds of English, once the service has shown that it takes them together.
        # Other languages are rare and slow to load: no text of another language should wait for them. Bulk texts share
        # no call with urgent ones, which would have to wait for all of them.
        self._batchers: dict[tuple[Sequence[Language], bool], MicroBatcher] = {}
        self._workers: int | None = None  # for English, if the service says
        self._suspects = asyncio.Lock()
        self._recent = RecentTexts()
        self._answered = time.monotonic()
        self._down_since: float | None = None

    @property
    def url(self) -> str:
        """The service's present address; raises G2PUnavailable while it has none."""
        return self._url()

    async def convert(self, texts: Sequence[str], language: Language, *, bulk: bool = False) -> list[G2PResult]:
        """The phonemes of each text, in order; all of them or an error. `bulk`: behind all other texts.

        Short texts that were asked for lately are answered without the service.
        """
        if (known := self._recent.get(texts, language)) is not None:
            return known
        results = await self._ask(texts, language, bulk=bulk)
        if not bulk:  # a book's many sentences would displace the few that come again
            self._recent.add(texts, language, results)
        return results

    async def _ask(self, texts: Sequence[str], language: Language, *, bulk: bool) -> list[G2PResult]:
        results: list[G2PResult] = []
        deadline = read_by.get()
        try:
            with tracing.step("g2p", {"kokoro.texts": len(texts), "kokoro.language": language.code}):
                async with asyncio.timeout(None if deadline is None else deadline - time.monotonic()):
                    for start in range(0, len(texts), MAX_BATCH_TEXTS):
                        batcher = self._batcher(language, bulk)
                        results += await batcher.convert(texts[start : start + MAX_BATCH_TEXTS], language)
        except TimeoutError:
            if self._down_since is not None:
                message = "the G2P service was away for all the time that the request may wait"
                raise G2PUnavailable(message, retry_after=RETRY_AFTER) from None
            raise Expired("the text was not read in time; try again later", retry_after=RETRY_AFTER) from None
        return results

    @property
    def down_for(self) -> float:
        """Seconds for which the service has not answered; 0 if the last request was answered."""
        return 0.0 if self._down_since is None else time.monotonic() - self._down_since

    async def watch(self) -> None:
        """Ask the service for its health while nothing else is asked, so that an outage and its end are noticed."""
        while True:
            await asyncio.sleep(WATCH_INTERVAL if self._down_since is None else AWAY_INTERVAL)
            if self._down_since is not None or time.monotonic() - self._answered >= WATCH_INTERVAL:
                with contextlib.suppress(KokoroError):
                    await self.health()

    async def health(self) -> dict[str, Any]:
        """The body of the service's `GET /health`."""
        response = await self._request("GET", "/health")
        _raise_for_status(response)
        return _json_object(response)

    async def not_installed(self) -> set[str]:
        """The codes of the languages that the service has not been installed with."""
        states = (await self.health()).get("languages")
        if not isinstance(states, dict):
            raise G2PFailed(f"{ADDRESS} does not list its languages; is it a G2P service?")
        return {code for code, state in states.items() if state == NOT_INSTALLED}

    async def aclose(self) -> None:
        for batcher in self._batchers.values():
            await batcher.aclose()
        await self._transport.aclose()

    def _batcher(self, language: Language, bulk: bool) -> MicroBatcher:
        sharing: Sequence[Language] = (language,)
        max_calls = MAX_CALLS
        if self._workers is not None and language in ENGLISH:
            sharing = ENGLISH
            max_calls = min(self._max_calls, self._workers + 1)  # one for each worker, and one that waits
        if (sharing, bulk) not in self._batchers:
            convert, gather = partial(self._post_batch, bulk=bulk), BULK_GATHER if bulk else 0.0
            self._batchers[sharing, bulk] = MicroBatcher(convert, max_calls, gather, self._suspects)
        batcher = self._batchers[sharing, bulk]
        # Bulk calls take no slot of urgent ones. They are fewer, for services that treat both alike.
        batcher.max_calls = max(1, max_calls - 1) if bulk else max_calls
        return batcher

    async def _post_batch(self, texts: Sequence[PendingText], *, bulk: bool) -> list[G2PResult]:
        for tries in itertools.count(1):
            try:
                return await self._post_once(texts, bulk=bulk)
            except _Away:
                if self.down_for >= self._patience:
                    raise
            await asyncio.sleep(RETRY.wait(tries))
        raise AssertionError

    async def _post_once(self, texts: Sequence[PendingText], *, bulk: bool) -> list[G2PResult]:
        body: dict[str, Any] = {"texts": [text for text, _ in texts]}
        codes = [language.code for _, language in texts]
        # Older services know only `lang`.
        body |= {"lang": codes[0]} if len(set(codes)) == 1 else {"langs": codes}
        response = await self._request("POST", "/convert/batch", body, BULK if bulk else NORMAL)
        _raise_for_status(response)
        try:
            results = [_parse_result(result) for result in _json_object(response)["results"]]
        except (AttributeError, KeyError, TypeError) as error:
            raise G2PFailed(f"the G2P service gave an answer of another form: {error!r}") from error
        if len(results) != len(texts):
            raise G2PFailed(f"the G2P service gave {len(results)} results for {len(texts)} texts")
        self._workers = _workers(response)
        return results

    async def _request(
        self, method: str, path: str, body: dict[str, Any] | None = None, headers: HttpHeaders = NORMAL
    ) -> httpx.Response:
        try:
            response = await self._request_once_more(method, path, body, headers)
            _raise_if_away(response)
        except G2PUnavailable as error:
            self._down_since = self._down_since or time.monotonic()
            if self._condition:
                self._condition.set(
                    f"{error.message}; meanwhile text cannot be read. Is G2P_SERVICE_URL right, if set?"
                )
            raise
        self._answered, self._down_since, self._patience = time.monotonic(), None, PATIENCE
        if self._condition:
            self._condition.clear()
        return response

    async def _request_once_more(
        self, method: str, path: str, body: dict[str, Any] | None, headers: HttpHeaders
    ) -> httpx.Response:
        broken = False
        try:
            try:
                return await self._send(method, path, body, headers)
            except (httpx.TimeoutException, httpx.ConnectError):
                raise
            except httpx.TransportError as error:
                # A kept connection that the service has closed fails like this. A request may safely be sent twice.
                log.debug("g2p connection failed, trying once more error=%r", error)
                broken = True
                return await self._send(method, path, body, headers)
        except httpx.ConnectTimeout as error:
            raise _Away("the G2P service cannot be reached in time", retry_after=RETRY_AFTER) from error
        except httpx.TimeoutException as error:
            raise G2PUnavailable("the G2P service did not answer in time", retry_after=RETRY_AFTER) from error
        except ResponseTooLarge as error:
            raise G2PFailed(f"the G2P service gave no usable answer: {error}") from error
        except UnicodeEncodeError as error:
            raise InvalidInput(f"text holds half of a character: {error.reason}", field="text") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if self._down_since is None:  # the address is for the log alone
                log.warning("g2p cannot be reached url=%s error=%s", without_credentials(self._url()), error)
            if broken:
                raise CallBrokenOff("the G2P service broke off its answer", retry_after=RETRY_AFTER) from error
            raise _Away("the G2P service cannot be reached", retry_after=RETRY_AFTER) from error
        except G2PUnavailable as error:  # it has no address
            kind = CallBrokenOff if broken else _Away
            raise kind(error.message, retry_after=error.retry_after) from error

    async def _send(self, method: str, path: str, body: dict[str, Any] | None, headers: HttpHeaders) -> httpx.Response:
        url, standing = _target(self._url().rstrip("/") + path)
        headers = standing | headers if headers else standing
        if (span := tracing.current()) is not None:
            headers = headers | span.headers()
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        request = httpx.Request(method, url, headers=headers, content=content, extensions=self._extensions)
        response = await self._transport.handle_async_request(request)
        await response.aread()
        return response


@lru_cache(maxsize=8)
def _target(address: str) -> tuple[httpx.URL, dict[str, str]]:
    """The URL of a request, and its headers. Parsing an address costs as much as the rest of a request."""
    url, headers = httpx.URL(address), {"Content-Type": "application/json"}
    if url.userinfo:
        credentials = f"{url.username}:{url.password}".encode()
        headers["Authorization"] = f"Basic {b64encode(credentials).decode()}"
    return url, headers


def _workers(response: httpx.Response) -> int | None:
    count = response.headers.get(WORKERS_HEADER, "")
    return max(1, min(int(count), MAX_WORKERS)) if count.isdecimal() else None


def _raise_if_away(response: httpx.Response) -> None:
    """A language that cannot be loaded is also a 503, but to be asked for again only in a minute."""
    if response.status_code in AWAY_STATUSES:
        code, message, _ = _parse_error(response)
        seconds = response.headers.get("retry-after", "")
        if code != G2PFailed.code and (not seconds.isdecimal() or int(seconds) <= PATIENCE):
            raise _Away(f"the G2P service failed: {message}", retry_after=RETRY_AFTER)


def _parse_result(result: dict[str, Any]) -> G2PResult:
    """Parse a `schemas.Conversion` by hand: that takes a third of pydantic's time on the event loop."""
    items, tokens = result.get("tokens"), None
    if items is not None:
        tokens = tuple(
            Token(item["text"], item["whitespace"], item["phonemes"], item.get("read_as", "")) for item in items
        )
    strings = itertools.chain([result["phonemes"]], *(tokens or ()))
    "".join(strings)  # raises TypeError if one is not a string
    return G2PResult(result["phonemes"], tokens, "".join(result.get("dropped", ())))


def _raise_for_status(response: httpx.Response) -> None:
    if response.is_success:
        return
    code, message, field = _parse_error(response)
    if code in _INPUT_ERRORS:
        raise _INPUT_ERRORS[code](message, field="language" if field and field.startswith("lang") else field)
    if response.is_server_error and code != G2PFailed.code:
        raise G2PUnavailable(f"the G2P service failed: {message}", retry_after=RETRY_AFTER)
    raise G2PFailed(message)


def _parse_error(response: httpx.Response) -> tuple[str, str, str | None]:
    """Code, message and field of an error response, of the service or of some other server at its address."""
    try:
        error = _json_object(response)["error"]
        return str(error["code"]), str(error["message"]), error.get("field")
    except (G2PFailed, KeyError, TypeError, AttributeError):
        return "", f"{ADDRESS} answered with status {response.status_code}; is it a G2P service?", None


def _json_object(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError as error:
        raise G2PFailed(f"{ADDRESS} did not answer in JSON; is it a G2P service?") from error
    if not isinstance(body, dict):
        raise G2PFailed(f"{ADDRESS} did not answer with an object; is it a G2P service?")
    return body
