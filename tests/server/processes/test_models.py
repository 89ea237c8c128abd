"""Models of MODELS_PATH in a real server of two processes whose engine process dies and whose folders change."""

from __future__ import annotations

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import other_models, servers
from tests.servers import TINY, Server, running

SWEDISH = other_models.GERMAN.replace("languages.de", "languages.sv").replace('"d"', '"s"')


def health(server: Server) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.get(f"{server.url}/health", timeout=60).json()
    return answer


def speak(server: Server, voice: str) -> httpx.Response:
    return httpx.post(f"{server.url}/tts", json={"phonemes": "ana.", "voice": voice, "format": "pcm"}, timeout=300)


def kill_engine(server: Server) -> None:
    (engine,) = (each for each in health(server)["processes"] if each["name"] == "engine")
    os.kill(engine["pid"], signal.SIGKILL)

    def is_back() -> bool:
        (now,) = (each for each in health(server)["processes"] if each["name"] == "engine")
        return now["pid"] != engine["pid"] and now["state"] == "running"

    servers.wait_for(is_back)


def states(server: Server) -> dict[str, str]:
    return {each["name"]: each["state"] for each in health(server)["models"]}


def test_an_engine_process_that_dies_and_folders_that_change(tmp_path: Path, shared_g2p: str) -> None:
    models = tmp_path / "models"
    other_models.write(models / "german")
    other_models.write(models / "swedish", SWEDISH, voices="sf_eva sf_anna")
    environ = {"MODELS_PATH": str(models), "KOKORO_CACHE_DIR": str(tmp_path / "cache"), "G2P_SERVICE_URL": shared_g2p}
    environ |= {"SERVER_PROCESSES": "2", "KOKORO_BACKEND": "torch", "KOKORO_DEVICE": "cpu", "QUEUE_TIMEOUT": "600"}
    with running(TINY, tmp_path / "log", **environ) as server, ThreadPoolExecutor(12) as pool:
        voices = ["german/df_anna", "swedish/sf_anna", "af_heart"] * 4
        answers = list(pool.map(lambda voice: speak(server, voice), voices))  # each is loaded once, by all at once
        assert [answer.status_code for answer in answers] == [200] * len(voices)
        assert server.lines().count("model ready name=german") == 1
        assert len({answer.content for answer in answers[::3]}) == 1

        waiting = [pool.submit(speak, server, voice) for voice in voices]
        kill_engine(server)
        assert [each.result().status_code for each in waiting] == [200] * len(voices)

        assert speak(server, "german/df_anna").status_code == 200  # the new engine process has it in memory
        shutil.rmtree(models / "german")
        other_models.write(models / "late")
        assert speak(server, "german/df_anna").status_code == 200
        kill_engine(server)  # the next one does not find it
        refused = speak(server, "german/df_anna")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_unavailable")
        assert "was changed while the server ran; restart the server" in refused.json()["error"]["message"]
        assert speak(server, "late/df_anna").status_code == 400  # nobody has asked for it at the start
        assert speak(server, "swedish/sf_eva").status_code == 200
        messages = [each["message"] for each in health(server)["degraded"]]
        assert [each for each in messages if "the model german cannot be used: its folder was changed" in each]
        assert states(server)["swedish"] == "loaded"

        for odd in ("german/", "/df_anna", "GERMAN/df_anna", "swedish/../german", "swedish/sf_eva/x", "swedish/\0"):
            assert speak(server, odd).status_code in (400, 422, 503), odd
        assert speak(server, "af_heart").status_code == 200


@pytest.mark.parametrize("processes", ["1", "2"])
def test_health_counts_the_voices_of_all_models(tmp_path: Path, shared_g2p: str, processes: str) -> None:
    models = tmp_path / "models"
    other_models.describe(models / "german")
    (models / "german" / "model.safetensors").touch()
    environ = {"MODELS_PATH": str(models), "G2P_SERVICE_URL": shared_g2p, "SERVER_PROCESSES": processes}
    with running(TINY, tmp_path / "log", **environ) as server:
        assert states(server) == {"german": "unloaded"}
        listed = httpx.get(f"{server.url}/voices", timeout=60).json()["voices"]
        assert len(listed) == health(server)["voices"]
        assert speak(server, "german/df_anna").status_code == 503
        assert states(server) == {"german": "failed"}
        assert [each for each in health(server)["degraded"] if "german cannot be loaded" in each["message"]]
