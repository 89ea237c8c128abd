"""What sentences of a voice agent cost while they wait: a text of MAX_TEXT_LENGTH may be tens of thousands of them."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import Any

from kokoro_server.api.agents.session import AgentSession, SessionListener
from kokoro_server.api.agents.text import AgentText

SENTENCES = 2_000


async def test_a_sentence_that_waits_is_small() -> None:
    settings = SimpleNamespace(max_text_length=100_000)
    services: Any = SimpleNamespace(voices=None, settings=settings, queue=SimpleNamespace(now=lambda: 0.0))
    renderers: Any = None
    session = AgentSession(SessionListener(), services, renderers)
    text = AgentText(session, services)
    tracemalloc.start()
    try:
        for number in range(SENTENCES):
            text.say(f"Go {number}!")
        each = tracemalloc.get_traced_memory()[0] / SENTENCES
    finally:
        tracemalloc.stop()
        await session.stop()
    assert each < 1_000  # bytes: 4,000 with a request and a queue for each
    assert session.unsent_characters == 0  # it has ended
