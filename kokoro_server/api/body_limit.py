"""A limit on the size of a request's body."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """ASGI middleware that answers 413 to a body of more than `limit` bytes, whether or not Content-Length says so."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        header = dict(scope["headers"]).get(b"content-length", b"0")
        content_length = int(header) if header.isdigit() else 0
        received = 0

        async def limited_receive() -> Message:
            nonlocal received
            if content_length > self._limit:
                raise self._too_large()
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit:
                raise self._too_large()
            return message

        await self.app(scope, limited_receive, send)

    def _too_large(self) -> HTTPException:
        return HTTPException(
            413,
            f"the body is longer than the {self._limit} bytes allowed (MAX_BODY_SIZE)",
            # The rest of the body is not read, so the connection cannot be used again.
            headers={"Connection": "close"},
        )
