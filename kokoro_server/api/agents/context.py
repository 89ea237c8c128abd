"""One of several texts that a WebSocket speaks side by side."""

from __future__ import annotations

from contextlib import AsyncExitStack

from fastapi import WebSocket

from kokoro_server.api.agents.session import AgentSession, SessionListener, agent_session
from kokoro_server.api.agents.text import AgentText
from kokoro_server.api.state import app_state


class AgentContext(SessionListener):
    """`start` must be called first, and `stop` last, which drops everything unsent."""

    _session: AgentSession
    _text: AgentText

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        state = app_state(self._socket)
        self._session = await self._stack.enter_async_context(agent_session(state, self, file="turn"))
        self._text = AgentText(self._session, state.services)

    async def stop(self) -> None:
        await self._stack.aclose()
