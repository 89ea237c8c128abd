"""A bound on the size of a request's body, before anything reads it."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """Answers 413 when a body is longer than `limit` bytes, announced or not."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        received = int(announced) if announced.isdigit() else 0
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            if received > self._limit:
                raise self._refusal()
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise self._refusal()
            return message

        await self.app(scope, counted, send)

    def _refusal(self) -> HTTPException:
        return HTTPException(
            413,
            f"the body is longer than the {self._limit} bytes allowed (MAX_BODY_SIZE)",
            # What is left of the body is not read, so the connection is of no more use.
            headers={"Connection": "close"},
        )
