"""Links to the audio of an answer, as Kokoro-FastAPI's web player asks for them."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Response
from starlette.types import Message

from kokoro_server.api import downloads
from kokoro_server.errors import NoSuchDownload
from tests import servers
from tests.servers import Server

# As the player of Kokoro-FastAPI 0.8.0 sends it.
RECORDED: dict[str, Any] = {
    "input": "Hello there. It was late.",
    "voice": "af_bella",
    "response_format": "mp3",
    "download_format": "mp3",
    "stream": True,
    "speed": 1,
    "return_download_link": True,
    "return_timing": True,
}


def speech(server: Server, **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/audio/speech", json=RECORDED | fields, timeout=300)


def link(server: Server, answer: httpx.Response) -> str:
    return f"{server.url}/v1{answer.headers['x-download-path']}"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("text", ["Hello.", "Hello there. " * 40])
def test_the_link_has_the_same_bytes(tiny_server: Server, stream: bool, text: str) -> None:
    answer = speech(tiny_server, stream=stream, input=text)
    assert answer.status_code == 200, answer.text
    kept = httpx.get(link(tiny_server, answer) + "?name=../my clip.exe")
    assert kept.content == answer.content
    assert kept.headers["content-type"] == "audio/mpeg"
    assert 'filename="my_clip.mp3"' in kept.headers["content-disposition"]
    assert kept.headers["cache-control"] == "no-store"


def test_a_dialogue_has_a_link_too(tiny_server: Server) -> None:
    body = {"turns": [{"text": "Hello."}, {"text": "Bye.", "voice": "am_adam"}], "return_download_link": True}
    answer = httpx.post(f"{tiny_server.url}/dev/dialogue", json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    assert httpx.get(link(tiny_server, answer)).content == answer.content


def test_players_seek_and_ask_for_the_length(tiny_server: Server) -> None:
    answer = speech(tiny_server, stream=False)
    address = link(tiny_server, answer)
    assert int(httpx.head(address).headers["content-length"]) == len(answer.content)
    part = httpx.get(address, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, answer.content[10:20])
    past = httpx.get(address, headers={"Range": f"bytes={len(answer.content)}-"})
    assert (past.status_code, past.json()["error"]["code"]) == (416, "range_not_satisfiable")
    assert past.headers["content-range"] == f"bytes */{len(answer.content)}"


def test_links_cannot_be_guessed_or_lead_elsewhere(tiny_server: Server) -> None:
    one, other = (speech(tiny_server).headers["x-download-path"] for _ in range(2))
    assert one != other
    for name in ("a" * 22 + ".mp3", "..%2Fjobs.sqlite", "%2Fetc%2Fpasswd", one.removeprefix("/download/")[:-4]):
        answer = httpx.get(f"{tiny_server.url}/v1/download/{name}")
        assert answer.status_code == 404, name


def test_without_the_field_nothing_is_kept(tiny_server: Server) -> None:
    assert "x-download-path" not in speech(tiny_server, return_download_link=False).headers


def test_what_has_no_file_has_no_link(tiny_server: Server) -> None:
    for path, fields in (
        ("/v1/audio/speech", {"stream_format": "sse"}),
        ("/v1/audio/speech/timestamps", {}),
        ("/dev/captioned_speech", {}),
    ):
        answer = httpx.post(tiny_server.url + path, json=RECORDED | fields)
        assert (answer.status_code, "return_download_link" in answer.text) == (400, True), answer.text


def test_an_answer_that_is_broken_off_leaves_nothing(tiny_server: Server) -> None:
    with httpx.stream(
        "POST", f"{tiny_server.url}/v1/audio/speech", json=RECORDED | {"input": "A long text. " * 2000}, timeout=300
    ) as answer:
        address = link(tiny_server, answer)
        next(answer.iter_raw())
    time.sleep(1)
    assert httpx.get(address).status_code == 404
    folder = tiny_server.log.parent / "jobs" / "downloads"
    assert not list(folder.glob("*.unfinished"))


def test_a_server_that_keeps_no_files_says_so(tmp_path: Path) -> None:
    with servers.running(servers.TINY, tmp_path / "log", JOBS_PATH="none") as server:
        answer = speech(server)
        assert (answer.status_code, "JOBS_PATH" in answer.text) == (400, True)
        assert speech(server, return_download_link=False).status_code == 200


def test_old_files_and_too_many_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{letter * 22}.wav" for letter in "abc"]
    for age, name in zip((2, 1, 0), names, strict=True):
        (tmp_path / name).write_bytes(bytes(1000))
        os.utime(tmp_path / name, (0, time.time() - age * 0.9 * downloads.LIFETIME))
    assert downloads.find_download(tmp_path, names[1])
    with pytest.raises(NoSuchDownload, match="60 minutes"):
        downloads.find_download(tmp_path, names[0])
    downloads.remove_old(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == names[1:]
    monkeypatch.setattr(downloads, "MAX_BYTES", 1500)
    downloads.remove_old(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == names[2:]
    monkeypatch.setattr(downloads, "MAX_FILES", 0)
    downloads.remove_old(tmp_path)
    assert not list(tmp_path.iterdir())


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_an_answer_that_is_cancelled_while_its_file_is_opened_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = threading.Event()

    def slowly(_folder: Path) -> bool:
        looking.set()
        time.sleep(0.3)
        return False

    async def nowhere(_message: Message) -> None: ...

    async def never() -> Message:
        raise AssertionError

    monkeypatch.setattr(downloads, "is_nearly_full", slowly)
    answer = downloads.DownloadableResponse(Response(b"audio"), tmp_path, "mp3")
    sending = asyncio.create_task(answer({"type": "http"}, never, nowhere))
    await asyncio.to_thread(looking.wait)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await asyncio.sleep(0.4)
    assert names(tmp_path) == []


def test_a_file_that_goes_meanwhile_does_not_hide_the_others(tmp_path: Path) -> None:
    for letter in "abcdefgh":
        (tmp_path / f"{letter * 22}.wav").symlink_to(tmp_path / "gone")
    old = tmp_path / f"{'z' * 22}.wav"
    old.write_bytes(b"")
    os.utime(old, (0, 0))
    downloads.remove_old(tmp_path)
    assert not old.exists()
