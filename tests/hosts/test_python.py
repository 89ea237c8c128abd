"""Programs from PyPI against a running server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.hosts.programs import BIN, LITELLM, answers, running_program
from tests.servers import ROOT, Server, free_port

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(400)]

KEY = "sk-of-the-tests-4f1c9a7e0b"  # LiteLLM's proxy wants a key of its own that is no simple word
# One refused request is enough for a pause of its deployment, if it is of a kind that counts.
PROXY = {
    "model_list": [
        {"model_name": "kokoro", "litellm_params": {"model": "openai/tts-1", "api_key": "none"}},
        {"model_name": "eleven", "litellm_params": {"model": "elevenlabs/eleven_flash_v2_5", "api_key": "none"}},
    ],
    "router_settings": {"num_retries": 0, "allowed_fails": 0, "cooldown_time": 60},
    "general_settings": {"master_key": KEY},
}


@pytest.fixture(scope="module")
def proxy(tiny_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder, port = tmp_path_factory.mktemp("litellm"), free_port()
    models: Any = json.loads(json.dumps(PROXY))
    for model, path in zip(models["model_list"], ("/v1", "/elevenlabs"), strict=True):
        model["litellm_params"]["api_base"] = tiny_server.url + path
    (folder / "config.yaml").write_text(json.dumps(models))
    command = [str(LITELLM), "--config", "config.yaml", "--port", str(port), "--host", "127.0.0.1"]
    with running_program(command, folder, LITELLM_LOCAL_MODEL_COST_MAP="True"):
        headers = {"Authorization": f"Bearer {KEY}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=120) as client:
            answers(client, "/health/liveliness")
            yield client


@pytest.mark.parametrize("model", ["kokoro", "eleven"])
def test_litellms_proxy_goes_on_after_a_refusal(proxy: httpx.Client, model: str) -> None:
    def say(text: str, voice: str) -> httpx.Response:
        return proxy.post("/v1/audio/speech", json={"model": model, "input": text, "voice": voice})

    assert say("Hello.", "af_heart").status_code == 200
    assert say("Hello.", "nobody").status_code == 400
    assert say("🎉", "af_heart").status_code == 200
    assert say("Hello.", "af_heart").headers["content-type"] == "audio/mpeg"


def run(script: str, server: Server, folder: Path) -> list[Any]:
    """Runs one of the scripts beside this file. Returns its lines of JSON."""
    environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "none", "PYTHONPATH": str(folder)}
    command = [str(BIN / "python"), str(ROOT / "tests" / "hosts" / script)]
    made = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, env=os.environ | environ, cwd=folder, timeout=240
    )
    return [json.loads(line) for line in made.stdout.splitlines() if line.startswith(b"{")]


def test_realtimetts(tiny_server: Server, tmp_path: Path) -> None:
    # Its engine names PyAudio's formats. To install PyAudio needs a compiler and PortAudio; nothing is played here.
    (tmp_path / "pyaudio.py").write_text("paInt16, paCustomFormat = 8, 65536\n")
    [mp3, pcm] = run("realtimetts_program.py", tiny_server, tmp_path)
    assert mp3["bytes"] > 5000
    assert pcm["bytes"] / 48_000 > 0.5
    assert pcm["rate"] == 22_050  # it plays 24,000 samples a second at this rate: the clients' page says what to do


def test_openai_agents(tiny_server: Server, tmp_path: Path) -> None:
    [found] = run("openai_agents_program.py", tiny_server, tmp_path)
    assert found["bytes"] / 48_000 > 0.5
