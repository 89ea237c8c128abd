"""Lets the request bodies know the defaults of this server."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from kokoro_server.config.defaults import SpeechDefaults, speech_defaults


class WithDefaults:
    """ASGI middleware. Sets `speech_defaults`."""

    def __init__(self, app: ASGIApp, defaults: SpeechDefaults) -> None:
        self.app = app
        self._defaults = defaults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = speech_defaults.set(self._defaults)
        try:
            await self.app(scope, receive, send)
        finally:
            speech_defaults.reset(token)
