"""Custom voices that change while a job is made, on a real server process: the job does not."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from tests.api.routes.jobs.test_jobs import send, until_ended
from tests.servers import TINY, Server, running, wait_for

TEXT = "\n\n".join(f"CHAPTER {number}\n\nDay {number} was calm." for number in range(1, 5))
OPTIONS = {"name": "days.txt", "format": "flac", "voice": "teller", "speed": "2"}


def define(server: Server, name: str, voice: str) -> None:
    assert httpx.post(f"{server.url}/voices", json={"name": name, "voice": voice}, timeout=60).status_code == 201


def result(server: Server, id: str) -> NDArray[np.float32]:
    ended = until_ended(server, id)
    assert ended["state"] == "done", ended["error"]
    content = httpx.get(f"{server.url}/jobs/{id}/result", timeout=60).content
    audio: NDArray[np.float32] = soundfile.read(io.BytesIO(content), dtype="float32")[0]
    return audio


def is_same(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    """Up to rounding, which depends on the rows of a batch."""
    return one.shape == other.shape and float(np.abs(one - other).max()) < 0.01


def unused(jobs: Path, id: str) -> int:
    """Passages that were spoken but are not in the book."""
    work = jobs / id / "work"
    used = {each["key"] for each in json.loads((work / "manifest.json").read_text())["stretches"]}
    return len({path.name for path in (work / "stretches").iterdir()} - used)


@pytest.fixture
def settings(tmp_path: Path, shared_g2p: str) -> dict[str, str]:
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "voices.json").write_text('{"narrator": "af_heart", "teller": "narrator(2)+af_sky(1)"}')
    return {
        "VOICES_PATH": str(tmp_path / "voices"),
        "JOBS_PATH": str(tmp_path / "jobs"),
        "G2P_SERVICE_URL": shared_g2p,
        "JOBS_AT_ONCE": "1",
    }


def test_a_job_keeps_the_default_voice_if_that_is_custom(tmp_path: Path, settings: dict[str, str]) -> None:
    lines = [{"id": 1, "text": "It was calm."}, {"id": 2, "text": "All is well.", "language": "en-GB"}]
    with running(TINY, tmp_path / "log", **settings, DEFAULT_VOICE="teller") as server:
        expected = result(server, send(server, TEXT, **OPTIONS).json()["id"])
        unnamed = {name: value for name, value in OPTIONS.items() if name != "voice"}
        assert is_same(result(server, send(server, TEXT, **unnamed).json()["id"]), expected)
        listed = send(server, "".join(json.dumps(line) + "\n" for line in lines), name="lines.jsonl").json()["id"]
        ended = until_ended(server, listed)
        assert (ended["state"], ended["progress"]["failed"]) == ("done", 0), ended["error"]


def test_a_job_keeps_its_voices_and_its_work(tmp_path: Path, settings: dict[str, str]) -> None:
    with running(TINY, tmp_path / "log", **settings) as server:
        first, waiting = (send(server, TEXT, **OPTIONS).json()["id"] for _ in range(2))
        wait_for(lambda: httpx.get(f"{server.url}/jobs/{first}", timeout=60).json()["state"] != "queued")
        define(server, "narrator", "am_adam")
        expected = result(server, first)
        assert is_same(result(server, waiting), expected)  # it may not have begun when its voice was changed
        killed = send(server, TEXT, **OPTIONS).json()["id"]
        wait_for(lambda: httpx.get(f"{server.url}/jobs/{killed}", timeout=60).json()["progress"]["audio_seconds"])
        define(server, "unrelated", "bf_emma")
        server.stop(signal.SIGKILL)
    (tmp_path / "voices" / "voices.json").write_text("{}")
    with running(TINY, tmp_path / "log2", **settings) as server:
        assert not is_same(result(server, killed), expected)  # it is the later narrator's, who is gone by now
        assert unused(tmp_path / "jobs", killed) == 0
        assert send(server, TEXT, **OPTIONS).status_code == 400
