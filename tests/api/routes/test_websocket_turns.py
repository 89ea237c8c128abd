"""A client that sends thousands of messages at once does not keep others waiting until all are handled."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import WebSocketDisconnect
from starlette.websockets import WebSocketState

from kokoro_server.api.agents.text import AgentText
from kokoro_server.api.routes.websocket import _Events, _MessageLoop

MESSAGES = 500


class Flood:
    """A WebSocket whose messages have all come already."""

    application_state = WebSocketState.DISCONNECTED

    def __init__(self, text: str) -> None:
        self._left = MESSAGES
        self._text = text

    async def receive(self) -> dict[str, Any]:
        self._left -= 1
        kind = "receive" if self._left >= 0 else "disconnect"
        return {"type": f"websocket.{kind}", "text": self._text}


@pytest.mark.parametrize("text", ['{"type": "append", "text": " "}', '{"type": "append"}', "", "[1]"])
async def test_others_have_their_turn_after_each_message(text: str) -> None:
    session = SimpleNamespace(closing=False, unsent_characters=0)
    voices = SimpleNamespace(canonical=str)
    parts = SimpleNamespace(voices=voices, settings=SimpleNamespace(max_text_length=10_000))
    socket: Any = Flood(text)
    loop = _MessageLoop(socket, session, AgentText(session, parts), _Events(socket))  # type: ignore[arg-type]
    handling, turns = asyncio.create_task(loop.run()), 0
    while not handling.done():
        await asyncio.sleep(0)
        turns += 1
    with pytest.raises(WebSocketDisconnect):
        await handling
    assert turns >= MESSAGES
