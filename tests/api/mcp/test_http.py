"""`/mcp`, with the SDK's own client."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile

from tests import servers
from tests.servers import Server
from tests.services.faulty import SLOW_ROW

pytest.importorskip("mcp")

import mcp

PATIENCE = 300.0


def text_of(result: mcp.types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, mcp.types.TextContent))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_language_model_speaks(tiny_server: Server, mode: str) -> None:
    async with mcp.Client(f"{tiny_server.url}/mcp", mode=mode, read_timeout_seconds=PATIENCE) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == {"speak", "voices", "reading", "make_audiobook", "audiobook"}
        assert listed["speak"].input_schema["required"] == ["text"]
        assert all(tool.description for tool in listed.values())

        spoken = await client.call_tool("speak", {"text": "Hello there.", "voice": "af_bella", "format": "wav"})
        [audio] = [block for block in spoken.content if isinstance(block, mcp.types.AudioContent)]
        assert audio.mime_type == "audio/wav"
        samples, rate = soundfile.read(io.BytesIO(base64.b64decode(audio.data)))
        assert (rate, len(samples) > 2_400) == (24_000, True)
        assert "af_bella" in text_of(spoken)

        voices = await client.call_tool("voices", {"language": "fr"})
        assert [voice["name"] for voice in voices.structured_content["voices"]] == ["ff_siwis"]
        reading = await client.call_tool("reading", {"text": "It costs $5."})
        assert "five dollars" in text_of(reading)


async def test_mistakes_are_named(tiny_server: Server) -> None:
    async with mcp.Client(f"{tiny_server.url}/mcp", read_timeout_seconds=PATIENCE) as client:
        for name, arguments, named in (
            ("speak", {"text": "Hi.", "voice": "af_nobody"}, "af_nobody"),
            ("speak", {"text": "Hi.", "volume": 11}, "volume"),
            ("speak", {}, "text"),
            ("speak", {"text": "x" * 2_001}, "2000"),
            ("speak", {"text": "Hi.", "format": "aiff"}, "format"),
            ("speak", {"text": "--- ..."}, "nothing"),
            ("voices", {"language": "tlh"}, "tlh"),
            ("audiobook", {"id": "../health"}, "id"),
            ("audiobook", {"id": "nothing"}, "job"),
            ("sing", {}, "sing"),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error, (name, arguments)
            assert named in text_of(result)


async def test_an_audiobook(tiny_server: Server) -> None:
    async with mcp.Client(f"{tiny_server.url}/mcp", read_timeout_seconds=PATIENCE) as client:
        asked = {
            "title": 'A "short"\r\nbook: mine',
            "text": "# One\n\nA sentence.\n\n# Two\n\nAnother.",
            "format": "mp3",
        }
        begun = await client.call_tool("make_audiobook", asked)
        assert not begun.is_error, text_of(begun)
        book = begun.structured_content
        async with asyncio.timeout(120):
            while book["state"] not in ("done", "failed"):
                await asyncio.sleep(0.2)
                book = (await client.call_tool("audiobook", {"id": book["id"]})).structured_content
    assert book["state"] == "done", book
    assert (book["title"], book["name"]) == ('A "short" book: mine', "A  short book  mine.md")
    async with httpx.AsyncClient() as http:
        content = (await http.get(f"{tiny_server.url}{book['path']}", timeout=60)).content
    assert len(content) > 1_000


async def test_books_are_their_callers(tmp_path: Path) -> None:
    keys = "alice=0123456789abcdef,bob=fedcba9876543210"
    with servers.running(servers.TINY, tmp_path / "log", API_KEYS=keys, JOBS_PATH=str(tmp_path / "jobs")) as server:

        def use(key: str, name: str, **arguments: str) -> Any:
            params = {"name": name, "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = call(server, json.dumps(message).encode(), Authorization=f"Bearer {key}")
            return answer.json()["result"]

        begun = use("0123456789abcdef", "make_audiobook", title="Mine", text="# One\n\nHello.")["structuredContent"]
        assert use("0123456789abcdef", "audiobook", id=begun["id"])["structuredContent"]["title"] == "Mine"
        foreign = use("fedcba9876543210", "audiobook", id=begun["id"])
        assert foreign["isError"]
        assert "unknown_job" in foreign["content"][0]["text"]


async def test_many_at_once(tiny_server: Server) -> None:
    async def one(number: int) -> None:
        async with mcp.Client(f"{tiny_server.url}/mcp", read_timeout_seconds=PATIENCE) as client:
            result = await client.call_tool("speak", {"text": f"This is number {number}."})
            assert not result.is_error, text_of(result)

    await asyncio.gather(*(one(number) for number in range(8)))


def call(server: Server, content: bytes | None = None, **headers: str) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "voices", "arguments": {}}}
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} | headers
    return httpx.post(
        f"{server.url}/mcp", content=json.dumps(message) if content is None else content, headers=sent, timeout=60
    )


def test_other_methods_and_content_are_refused(tiny_server: Server) -> None:
    assert call(tiny_server).json()["result"]["structuredContent"]["voices"]
    for method in ("GET", "DELETE", "PUT"):
        refused = httpx.request(method, f"{tiny_server.url}/mcp", timeout=60)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    for content in (b"", b"{", b"[]", b"null", b'{"jsonrpc": "2.0"}', b"\xff", b"[" * 100_000):
        refused = call(tiny_server, content)
        assert 400 <= refused.status_code < 500, content[:20]
    assert call(tiny_server, b"{}" + b" " * (64 << 20)).status_code == 413
    # A page of another origin, and a host that is not ours.
    assert call(tiny_server, Origin="https://evil.example").status_code == 403
    assert call(tiny_server, Host="evil.example").status_code == 403
    assert httpx.get(f"{tiny_server.url}/health", timeout=60).json()["status"] == "ok"


def test_keys_and_limits_hold(tmp_path: Path) -> None:
    with servers.running(servers.TINY, tmp_path / "log", API_KEYS="me=0123456789abcdef", RATE_LIMIT="3") as server:
        assert call(server).status_code == 401
        key = {"Authorization": "Bearer 0123456789abcdef"}
        assert call(server, Authorization="Bearer wrong-wrong-wrong").status_code == 401
        answers = [call(server, **key) for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]  # a tool's own requests do not count


async def test_a_client_that_leaves_takes_its_work_along(tmp_path: Path) -> None:
    with servers.running(servers.FAULTY, tmp_path / "log", MAX_CONCURRENT_REQUESTS="1") as server:
        call(server)  # which imports the SDK
        asked = {"text": "One of many words. " * 100, "format": "wav", "speed": SLOW_ROW}
        params = {"name": "speak", "arguments": asked}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.TimeoutException):
                await client.post(f"{server.url}/mcp", json=message, headers=headers, timeout=0.4)
        health = f"{server.url}/health/batching"
        queued = partial(httpx.get, health, timeout=60)
        servers.wait_for(lambda: queued().json()["queue_status"]["current_size"] == 0, 20)
        servers.wait_for(lambda: call(server).status_code == 200, 20)
        spoken = json.dumps(message | {"params": {"name": "speak", "arguments": {"text": "Two words. " * 40}}})
        servers.wait_for(lambda: "audio" in call(server, spoken.encode()).text, 20)
        servers.wait_for(lambda: re.search(r"path=/mcp status=499", server.lines()), 20)
        ends = re.findall(r"path=/mcp status=(\d+)", server.lines())
        assert ends.count("499") == 1  # not one of those that had their answer
        assert set(ends) <= {"200", "429", "499"}
        assert "Traceback" not in server.lines()


async def test_the_later_pieces_of_a_client_that_leaves_are_not_spoken(tmp_path: Path) -> None:
    with servers.running(servers.FAULTY, tmp_path / "log", MAX_ROWS_PER_PASS="1") as server:
        call(server)  # which imports the SDK
        health = partial(httpx.get, f"{server.url}/health/batching", timeout=60)
        asked = {"text": "One of many words. " * 100, "speed": SLOW_ROW}
        params = {"name": "speak", "arguments": asked}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient(timeout=60) as client:
            asking = asyncio.create_task(client.post(f"{server.url}/mcp", json=message, headers=headers))
            while health().json()["queue_status"]["current_size"] < 1:  # noqa: ASYNC110 (the server's)
                await asyncio.sleep(0.05)
            asking.cancel()
        servers.wait_for(lambda: re.search(r"path=/mcp status=499", server.lines()), 20)
        assert health().json()["queue_status"]["current_size"] == 0


def test_without_the_package_the_error_says_how_to_install_it(tmp_path: Path) -> None:
    from tests import hidden_modules

    environ = hidden_modules.environment(tmp_path, ("mcp", "mcp_types"))
    with servers.running(servers.TINY, tmp_path / "log", **environ) as server:
        refused = call(server)
    assert (refused.status_code, refused.json()["error"]["code"]) == (501, "mcp_not_installed")
    assert "pip install 'kokoro-server[mcp]'" in refused.json()["error"]["message"]
