"""`POST /tts/bulk`: many clips in one answer, each as soon as it is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kokoro_server.api.speech import parse_line
from kokoro_server.config.settings import Settings
from kokoro_server.longform.bulk.clips import read_clips
from kokoro_server.longform.bulk.makers.local import BackendMaker
from kokoro_server.longform.bulk.task import Made
from kokoro_server.server.app import create_app
from kokoro_server.synthesis.services import Services
from kokoro_server.synthesis.speech_backend import LocalBackend
from tests import tiny
from tests.services import fake_g2p

SENTENCE = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ. "


@asynccontextmanager
async def served(folder: Path, **environ: str) -> AsyncIterator[tuple[httpx.AsyncClient, Services]]:
    settings = Settings.load({"G2P_SERVICE_URL": "http://localhost:9", **environ}, dotenv=None)
    app = create_app(settings, load=lambda _settings: tiny.load(folder))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        yield client, app.state.services


def clips(answer: httpx.Response) -> list[tuple[dict[str, Any], bytes]]:
    assert answer.status_code == 200, answer.text
    return [(told, audio) for _, told, audio in read_clips(iter([answer.content]))]


async def waiting(services: Services, rows: int) -> None:
    """Wait until so many wait in the lane of bulk."""
    for _ in range(3_000):
        if (await services.queue.state())["queue_status"]["by_priority"]["bulk"] == rows:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(await services.queue.state())


async def test_each_clip_has_a_line_of_facts_and_the_bytes_that_it_has_alone(tmp_path: Path) -> None:
    wanted = {"phonemes": SENTENCE, "voice": "am_adam"}
    async with served(tmp_path) as (client, _):
        for fields in ({}, {"format": "flac"}, {"sample_rate": 16_000, "volume": 6}):
            one = {**wanted, **fields}
            [(told, audio)] = clips(await client.post("/tts/bulk", json={"requests": [one]}))
            assert audio == (await client.post("/tts", json=one)).content
            words = (await client.post("/tts/captioned", json=one)).json()
            assert (told["duration"], told["words"], told["voice"]) == (words["duration"], words["words"], "am_adam")


@pytest.mark.parametrize("fields", [{"lead": 0}, {"sample_rate": 8_000}])
async def test_words_follow_a_file_that_begins_late(tmp_path: Path, fields: dict[str, Any]) -> None:
    """AAC delays, by more than the silence that could be left out for it."""
    one = {"text": "Ships sailed.", "format": "aac", **fields}
    with fake_g2p.running() as url:
        async with served(tmp_path, G2P_SERVICE_URL=url) as (client, services):
            [(told, _)] = clips(await client.post("/tts/bulk", json={"requests": [one]}))
            words = (await client.post("/tts/captioned", json=one)).json()["words"]
            in_wav = (
                await client.post("/tts/captioned", json={"text": one["text"], "lead": fields.get("lead")})
            ).json()
            line, _ = await BackendMaker(LocalBackend(services), parse_line).outcome(one)
    assert isinstance(line, Made)
    assert words[0]["start"] > in_wav["words"][0]["start"]
    assert told["words"] == line.words == words


async def test_a_clip_that_fails_costs_only_itself(tmp_path: Path) -> None:
    good = {"phonemes": SENTENCE}
    requests = [good, {"phonemes": SENTENCE, "voice": "nobody"}, "no object", {"text": "Hm.", "speed": 9}, good]
    async with served(tmp_path) as (client, _):
        found = {told["index"]: told for told, _ in clips(await client.post("/tts/bulk", json={"requests": requests}))}
        errors = {index: told["error"] for index, told in found.items() if told.get("error")}
        assert sorted(found) == [0, 1, 2, 3, 4]
        assert sorted(errors) == [1, 2, 3]
        assert (errors[1]["status"], errors[1]["code"], errors[1]["field"]) == (400, "unknown_voice", "voice")
        assert (errors[3]["status"], errors[3]["code"], errors[3]["field"]) == (422, "invalid_input", "speed")
        assert errors[1]["retry_after"] is None

        refused = await client.post("/tts/bulk", json={"requests": [good] * 51})
        assert (refused.status_code, refused.json()["error"]["field"]) == (400, "requests")


async def test_nothing_waits_for_the_slowest(tmp_path: Path) -> None:
    async with served(tmp_path, KOKORO_MAX_BATCH_SIZE="1") as (client, _):
        requests = [{"phonemes": SENTENCE * 12}, {"phonemes": SENTENCE}]
        found = clips(await client.post("/tts/bulk", json={"requests": requests}))
    assert [told["index"] for told, _ in found] == [1, 0]


async def test_all_of_it_waits_behind_others_and_is_refused_where_the_queue_is_full(tmp_path: Path) -> None:
    body = {"requests": [{"phonemes": SENTENCE}]}
    async with served(tmp_path, MAX_QUEUE_SIZE="1") as (client, services):
        services.queue.hold()
        first = asyncio.create_task(client.post("/tts/bulk", json=body))
        await waiting(services, 1)
        refused = await client.post("/tts/bulk", json=body)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        services.queue.release()
        assert len(clips(await first)) == 1


async def test_clips_of_a_client_that_leaves_are_not_made(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, services):
        services.queue.hold()
        asking = asyncio.create_task(client.post("/tts/bulk", json={"requests": [{"phonemes": SENTENCE}] * 5}))
        await waiting(services, 5)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await waiting(services, 0)
        services.queue.release()
