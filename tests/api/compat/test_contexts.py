"""Contexts of a WebSocket at moments that a client can hardly hit, in an application without G2P."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.compat.elevenlabs import websockets
from kokoro_server.api.compat.elevenlabs.schemas import SocketQuery
from kokoro_server.config.settings import Settings
from kokoro_server.server.app import create_app
from tests import tiny

PATIENCE = 20  # seconds
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}


def make_app(folder: Path) -> FastAPI:
    settings = Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None)
    return create_app(settings, load=lambda _settings: tiny.load(folder))


def cartesia(context: str, transcript: str = "", **fields: Any) -> dict[str, Any]:
    about = {"model_id": "sonic-3", "voice": "af_heart", "output_format": RAW}
    return about | {"context_id": context, "transcript": transcript} | fields


def test_a_context_that_failed_does_not_hold_up_the_end_of_the_server(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    with (
        TestClient(app, base_url="http://localhost") as http,
        http.websocket_connect("/tts/websocket") as socket,
    ):
        socket.send_json(cartesia("a", "Hello there. And then some more.", **{"continue": True}))
        assert socket.receive_json()["type"] == "error"
        deadline = time.monotonic() + PATIENCE
        while app.state.running.busy and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not app.state.running.busy


async def test_the_end_of_a_context_is_told_though_another_begins_meanwhile(tmp_path: Path) -> None:
    """The client reads slowly: `done` of the first context waits in `send`."""
    received = asyncio.Queue[dict[str, Any]]()
    sent = list[tuple[str, str]]()
    waiting, reading, both = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def send(message: Any) -> None:
        if message["type"] != "websocket.send":
            return
        event = json.loads(message["text"])
        if event["context_id"] == "a":
            waiting.set()
            await reading.wait()
        sent.append((event["type"], event["context_id"]))
        both.set()

    def say(context: str) -> None:
        received.put_nowait({"type": "websocket.receive", "text": json.dumps(cartesia(context))})

    app = make_app(tmp_path)
    scope = {"type": "websocket", "path": "/tts/websocket", "query_string": b"", "headers": [], "subprotocols": []}
    async with app.router.lifespan_context(app), asyncio.timeout(PATIENCE):
        received.put_nowait({"type": "websocket.connect"})
        talking = asyncio.create_task(app(scope, received.get, send))
        say("a")
        await waiting.wait()
        say("b")
        await both.wait()
        reading.set()
        while len(sent) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        received.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await talking
    assert sent == [("done", "b"), ("done", "a")]


async def test_a_socket_is_not_idle_right_after_it_spoke(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = asyncio.Event()
    begin = time.monotonic()

    async def send(message: Any) -> None:
        if message["type"] == "websocket.close":
            closed.set()

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    socket = WebSocket({"type": "websocket"}, receive, send)
    await socket.accept()
    contexts = websockets._Contexts(socket, SocketQuery(voice_id="af_heart", inactivity_timeout=1), DeliveryOptions())
    speaks = property(lambda _contexts: time.monotonic() < begin + 0.8)
    monkeypatch.setattr(websockets._Contexts, "is_speaking", speaks)
    async with asyncio.timeout(PATIENCE), contexts:
        await closed.wait()
    assert time.monotonic() - begin > 1.3
