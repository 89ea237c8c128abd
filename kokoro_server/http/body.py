"""Limits on a request's body: how long it is, how slowly it comes, and how many values its JSON may have."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES_PER_SECOND = 1_000
UPLOADS = ("/jobs", "/jobs/preview")  # paths that take files


class BodyLimit:
    """ASGI middleware that answers 413 to a body of more than `limit` bytes, whether or not Content-Length says so.

    One that falls `seconds` behind MIN_BYTES_PER_SECOND is answered with 408. One with more than `max_marks` commas and
    opening brackets is answered with 413 too: in JSON there is one for each value, and ten megabytes of `[],` would
    take the parser, and with it the event loop, five seconds. Forms with files, to the paths that take them, may have
    `uploads` bytes of any kind.
    """

    def __init__(self, app: ASGIApp, limit: int, seconds: float, max_marks: int, uploads: int = 0) -> None:
        self.app = app
        self._uploads = uploads
        self._limit = limit
        self._seconds = seconds
        self._max_marks = max_marks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        is_upload = bool(self._uploads) and _is_upload(scope["path"], headers.get(b"content-type", b""))
        limit = self._uploads if is_upload else self._limit
        header = headers.get(b"content-length", b"0")
        content_length = int(header) if header.isdigit() else 0
        deadline = asyncio.get_running_loop().time() + self._seconds
        received, marks, whole = 0, 0, False

        async def limited_receive() -> Message:
            nonlocal received, marks, whole
            if whole:  # what is waited for now is the client's leaving
                return await receive()
            if content_length > limit:
                raise _too_large(limit, is_upload=is_upload)
            try:
                async with asyncio.timeout_at(deadline + received / MIN_BYTES_PER_SECOND):
                    message = await receive()
            except TimeoutError:
                raise self._too_slow() from None
            body = message.get("body", b"")
            received += len(body)
            if not is_upload:
                marks += body.count(b",") + body.count(b"[") + body.count(b"{")
            if received > limit:
                raise _too_large(limit, is_upload=is_upload)
            if marks > self._max_marks:
                raise HTTPException(
                    413, f"the body has more than the {self._max_marks} commas and opening brackets allowed"
                )
            whole = not message.get("more_body", False)
            return message

        await self.app(scope, limited_receive, send)

    def _too_slow(self) -> HTTPException:
        return HTTPException(
            408,
            f"the body comes too slowly: it may fall {self._seconds:g} s behind {MIN_BYTES_PER_SECOND} bytes a second "
            "(READ_TIMEOUT)",
            headers={"Connection": "close"},
        )


def _is_upload(path: str, content_type: bytes) -> bool:
    return path in UPLOADS and content_type.lower().startswith(b"multipart/form-data")


def _too_large(limit: int, *, is_upload: bool) -> HTTPException:
    setting = "MAX_UPLOAD_SIZE" if is_upload else "MAX_BODY_SIZE"
    return HTTPException(413, f"the body is longer than the {limit} bytes allowed ({setting})")
