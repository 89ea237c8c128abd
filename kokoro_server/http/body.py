"""Limits on a request's body: how long it is, how slowly it comes, and how many values its JSON may have."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kokoro_server.callers.current import caller
from kokoro_server.callers.shares import SharedLimit

MIN_BYTES_PER_SECOND = 1_000
UPLOADS = ("/jobs", "/jobs/preview")  # paths that take files
UPLOADS_PER_CALLER = 8  # at once
UPLOADS_AT_ONCE = 64  # of all callers
BODIES_IN_MEMORY = 20  # of the largest size; of smaller ones as many more
RETRY_AFTER = {"Retry-After": "5", "Connection": "close"}


class BodyLimit:
    """ASGI middleware that answers 413 to a body of more than `limit` bytes, whether or not Content-Length says so.

    One that falls `seconds` behind MIN_BYTES_PER_SECOND is answered with 408. Bytes that came faster do not make up for
    a longer pause. One with more than `max_marks` commas and opening brackets is answered with 413 too: in JSON there
    is one for each value, and ten megabytes of `[],` would take the parser, and with it the event loop, five seconds.
    Forms with files, to the paths that take them, may have `uploads` bytes of any kind.

    Bodies count until their requests end. With too many uploads, or too many bytes in memory, the answer is 429.
    """

    def __init__(self, app: ASGIApp, limit: int, seconds: float, max_marks: int, uploads: int = 0) -> None:
        self.app = app
        self._max_upload = uploads
        self._limit = limit
        self._seconds = seconds
        self._max_marks = max_marks
        self._uploads = SharedLimit(UPLOADS_AT_ONCE)
        self._memory = SharedLimit(BODIES_IN_MEMORY * limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        is_upload = bool(self._max_upload) and _is_upload(scope["path"], headers.get(b"content-type", b""))
        limit = self._max_upload if is_upload else self._limit
        header = headers.get(b"content-length", b"0")
        content_length = int(header) if header.isdigit() else 0
        now = asyncio.get_running_loop().time
        patience = self._seconds
        received, marks, whole = 0, 0, False

        async def limited_receive() -> Message:
            nonlocal received, marks, whole, patience
            if whole:  # what is waited for now is the client's leaving
                return await receive()
            if content_length > limit:
                raise _too_large(limit, is_upload=is_upload)
            if is_upload and not received:
                self._take_upload(held)
            started = now()
            try:
                async with asyncio.timeout(patience):
                    message = await receive()
            except TimeoutError:
                raise self._too_slow() from None
            body = message.get("body", b"")
            patience = min(self._seconds, patience - (now() - started) + len(body) / MIN_BYTES_PER_SECOND)
            received += len(body)
            if not is_upload:
                marks += body.count(b",") + body.count(b"[") + body.count(b"{")
                self._take_memory(len(body), held)
            if received > limit:
                raise _too_large(limit, is_upload=is_upload)
            if marks > self._max_marks:
                raise HTTPException(
                    413, f"the body has more than the {self._max_marks} commas and opening brackets allowed"
                )
            whole = not message.get("more_body", False)
            return message

        with ExitStack() as held:
            await self.app(scope, limited_receive, send)

    def _take_upload(self, held: ExitStack) -> None:
        name = caller.get()
        if self._uploads.taken_by(name) >= UPLOADS_PER_CALLER:
            raise HTTPException(429, f"you have {UPLOADS_PER_CALLER} uploads running, the most allowed", RETRY_AFTER)
        if self._uploads.is_full_for(name):
            raise HTTPException(429, f"{self._uploads.total} uploads are running; try again", RETRY_AFTER)
        self._uploads.take(name)
        held.callback(self._uploads.give_back, name)

    def _take_memory(self, amount: int, held: ExitStack) -> None:
        name = caller.get()
        if amount and self._memory.is_full_for(name):
            raise HTTPException(
                429, "the bodies of running requests fill the memory that they may take; try again", RETRY_AFTER
            )
        self._memory.take(name, amount)
        held.callback(self._memory.give_back, name, amount)

    def _too_slow(self) -> HTTPException:
        return HTTPException(
            408,
            f"the body comes too slowly: it may pause, and fall behind {MIN_BYTES_PER_SECOND} bytes a second, by "
            f"{self._seconds:g} s (READ_TIMEOUT)",
            headers={"Connection": "close"},
        )


def _is_upload(path: str, content_type: bytes) -> bool:
    return path in UPLOADS and content_type.lower().startswith(b"multipart/form-data")


def _too_large(limit: int, *, is_upload: bool) -> HTTPException:
    setting = "MAX_UPLOAD_SIZE" if is_upload else "MAX_BODY_SIZE"
    return HTTPException(413, f"the body is longer than the {limit} bytes allowed ({setting})")
