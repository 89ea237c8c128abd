"""OpenAI's own npm package against a running server. It is installed once, into the user's cache."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from platformdirs import user_cache_path

from tests.audio_files import EXACT, EXTRA_SAMPLES, decode
from tests.servers import ROOT, Server, say

PACKAGE = "openai@6.49.0"
TEXT = "One small step for a person. It was late, and the lights were on; nobody knew why. Then they went out. "

pytestmark = [
    pytest.mark.npm,
    pytest.mark.skipif(not (shutil.which("npm") and shutil.which("node")), reason="npm is not installed"),
]


@pytest.fixture(scope="module")
def package() -> Path:
    """The folder where the package is installed."""
    folder = user_cache_path("kokoro-server", appauthor=False) / "tests" / PACKAGE
    if not (folder / "node_modules" / "openai" / "package.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), PACKAGE]
        subprocess.run(install, check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def found(tiny_server: Server, package: Path) -> dict[str, Any]:
    script = ROOT / "tests" / "clients" / "openai_npm.cjs"
    command = ["node", str(script), f"{tiny_server.url}/v1", TEXT]
    made = subprocess.run(command, cwd=package, check=True, stdout=subprocess.PIPE, timeout=300)
    result: dict[str, Any] = json.loads(made.stdout)
    return result


@pytest.fixture(scope="module")
def pcm(tiny_server: Server) -> bytes:
    # Cut as a stream is.
    return say(tiny_server, TEXT, format="pcm", optimize_for_latency=True).content


def test_every_format(found: dict[str, Any], pcm: bytes) -> None:
    assert set(found["formats"]) == {"mp3", "opus", "aac", "flac", "wav", "pcm"}
    for format, data in found["formats"].items():
        audio = decode(base64.b64decode(data), format)
        assert len(audio) - len(pcm) // 2 in EXTRA_SAMPLES.get(format, EXACT), format


def test_audio_comes_in_many_chunks(found: dict[str, Any]) -> None:
    assert found["chunks"] > 5


def test_events(found: dict[str, Any], pcm: bytes) -> None:
    assert found["deltas"] == hashlib.sha256(pcm).hexdigest()
    assert found["done"] == "speech.audio.done"


def test_models(found: dict[str, Any]) -> None:
    assert "tts-1" in found["models"]


def test_errors_are_of_the_right_class(found: dict[str, Any]) -> None:
    kind = "invalid_request_error"
    assert found["failures"] == {
        "voice": {"name": "BadRequestError", "status": 400, "type": kind, "param": "voice", "code": "unknown_voice"},
    }
