"""Programs from npm's registry against a running server."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.audio_files import decode
from tests.hosts.programs import NPM, answers, running_program
from tests.servers import ROOT, Server, free_port

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(700)]

TEXT = "Hello from a program."


def found(name: str, server: Server) -> dict[str, Any]:
    script = shutil.copy(ROOT / "tests" / "hosts" / "sdks.mjs", NPM)  # it imports from its own folder
    made = subprocess.run(["node", script, name, server.url], check=True, stdout=subprocess.PIPE, timeout=120)
    result: dict[str, Any] = json.loads(made.stdout)
    return result


def seconds(data: str, format: str = "mp3") -> float:
    return len(decode(base64.b64decode(data), format)) / 24_000


@pytest.mark.parametrize("name", ["openai", "ai_openai", "ai_elevenlabs", "ai_deepgram", "elevenlabs", "deepgram"])
def test_it_speaks(name: str, tiny_server: Server) -> None:
    answer = found(name, tiny_server)
    assert len(base64.b64decode(answer["mp3"])) > 5000
    assert answer.get("type", "audio/mpeg") == "audio/mpeg"
    if "silence" in answer:
        assert 0.2 < seconds(answer["silence"]) < 0.5


def test_elevenlabs(tiny_server: Server) -> None:
    answer = found("elevenlabs", tiny_server)
    assert "".join(answer["characters"]) == TEXT
    assert min(answer["voices"], answer["models"]) > 0
    assert answer["missing"] == 400
    assert answer["tier"]


def test_deepgrams_socket(tiny_server: Server) -> None:
    assert found("deepgram", tiny_server)["bytes"] > 24_000


def test_cartesia(tiny_server: Server) -> None:
    answer = found("cartesia", tiny_server)
    assert seconds(answer["wav"], "wav") > 0.5
    assert answer["voices"] == 9  # it asks for pages until one is empty


def test_sillytavern(tiny_server: Server, tmp_path: Path) -> None:
    """Its own server between the page and ours. Names of voices are typed there, with spaces after the commas.

    Its first start compiles its page, for minutes on a busy machine. Its folder of data keeps that.
    """
    port = free_port()
    command = ["node", str(NPM / "node_modules" / "sillytavern" / "server.js"), "--port", str(port)]
    command += ["--dataRoot", str(NPM / "sillytavern-data"), "--configPath", str(tmp_path / "config.yaml")]
    command += ["--browserLaunchEnabled", "false", "--disableCsrf", "true"]
    body = {"provider_endpoint": f"{tiny_server.url}/v1/audio/speech", "model": "tts-1", "response_format": "mp3"}
    with running_program(command, tmp_path), httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
        answers(client, "/")
        for text, voice, speed in (("Hello.", "af_heart", 1), ("Hello.", " af_bella", 0.25), ("🎉", "af_heart", 4)):
            said = body | {"input": text, "voice": voice, "speed": speed}
            answer = client.post("/api/openai/custom/generate-voice", json=said)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/mpeg")
            assert decode(answer.content, "mp3").size
