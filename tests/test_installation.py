"""What `make serve` installs on a CPU is what a server needs there."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import httpx
import pytest

from kokoro_server.assets.library import Assets
from kokoro_server.g2p import extras
from tests import cpu_requirements, hidden_modules, servers
from tests.cpu_requirements import ROOT, normal
from tests.servers import Server, say

# What runs where torch is.
TORCH_ONLY = (
    "engine/cuda",
    "engine/model",
    "engine/devices",
    "engine/torch_engine",
    "engine/cpu/export",
    "engine/cpu/traced_ops",
)
NOT_ON_A_CPU = {"torch", "kokoro", "triton"}
ON_REQUEST = (
    "faster_whisper",
    "mcp",
    "mcp_types",
    "opentelemetry",
    "pyarrow",
    "ray",
    "requests",
    "zeroconf",
)  # of extras of their own
OF_LANGUAGES = {"misaki.cutlet", "misaki.zh", *(name for names in extras.MODULES.values() for name in names)}
READS = """
from kokoro_server import languages
from kokoro_server.g2p.service import phonemizers
for language, text in ((languages.EN_US, "Hello, 2 xylqs."), (languages.EN_GB, "Hi."), (languages.HI, "नमस्ते।")):
    assert phonemizers.load(language)(text).phonemes
"""


@cache
def not_installed() -> tuple[str, ...]:
    """The modules of this environment that `make serve` would not have installed."""
    installed = {*cpu_requirements.needed(), "kokoro-server", "pip"}
    return tuple(
        module
        for module, packages in metadata.packages_distributions().items()
        if not any(normal(name) in installed for name in packages)
    )


def imported_names() -> set[str]:
    """All that the modules of a server on a CPU import, at once or later, other than their own package."""
    found: set[str] = set()
    package = ROOT / "kokoro_server"
    for path in package.rglob("*.py"):
        if path.relative_to(package).as_posix().startswith(TORCH_ONLY):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
    others = {*sys.stdlib_module_names, *NOT_ON_A_CPU, "kokoro_server"}
    return {name for name in found - OF_LANGUAGES if name.partition(".")[0] not in (*others, *ON_REQUEST)}


def run(code: str, folder: Path) -> None:
    environ = os.environ | hidden_modules.environment(folder, not_installed())
    ended = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr


def test_the_list_is_what_the_package_requires() -> None:
    advice = "python -m tests.cpu_requirements > requirements-cpu.txt"
    assert cpu_requirements.FILE.read_text(encoding="utf-8") == cpu_requirements.content(), advice


def test_every_package_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {normal(line.partition("==")[0]) for line in lines}
    everything = cpu_requirements.needed(("ja", "zh", "zeroconf"))
    assert not everything.keys() - pinned


def test_what_the_package_imports_is_in_the_list(tmp_path: Path) -> None:
    names = imported_names()
    assert {"numpy", "onnxruntime", "huggingface_hub", "spacy"} <= names
    # spaCy comes after its stand-ins.
    first = "from kokoro_server.g2p.service import stubs; stubs.install()\n"
    run(first + "\n".join(f"import {name}" for name in sorted(names)), tmp_path)


def test_english_and_espeaks_languages_are_read_without_the_rest(tmp_path: Path) -> None:
    run(READS, tmp_path)


@pytest.fixture(scope="module")
def lean_server(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server, the model included, that finds nothing but what `make serve` installs."""
    folder = tmp_path_factory.mktemp("lean")
    environ = hidden_modules.environment(folder, not_installed())
    with servers.running(servers.REAL, folder / "log", KOKORO_BACKEND="onnx", KOKORO_DEVICE="cpu", **environ) as server:
        yield server


@pytest.mark.real
def test_a_server_speaks_with_what_is_installed(lean_server: Server) -> None:
    for format in ("wav", "mp3", "aac"):
        assert len(say(lean_server, "Good morning.", format=format).content) > 4000
    assert say(lean_server, "Buenos días.", voice="ef_dora").status_code == 200
    health = httpx.get(f"{lean_server.url}/health", timeout=60).json()
    assert (health["status"], health["degraded"]) == ("ok", [])


@pytest.mark.real
@pytest.mark.parametrize(
    ("voice", "text", "language"), [("jf_alpha", "こんにちは。", "ja"), ("zf_xiaobei", "你好。", "zh")]
)
def test_a_language_that_is_not_installed_is_refused_with_the_command_to_run(
    lean_server: Server, voice: str, text: str, language: str
) -> None:
    refused = say(lean_server, text, voice=voice)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["field"]) == (400, "language_not_installed", "language")
    assert f"pip install 'kokoro-server[{language}]'" in error["message"]
    assert f"make serve LANGUAGES={language}" in error["message"]

    streamed = httpx.post(f"{lean_server.url}/tts/stream", json={"text": text, "voice": voice}, timeout=60)
    assert (streamed.status_code, streamed.json()["error"]) == (400, error)
    body = {"model": "tts-1", "input": text, "voice": voice}
    openai = httpx.post(f"{lean_server.url}/v1/audio/speech", json=body, timeout=60)
    assert (openai.status_code, openai.json()["error"]["message"]) == (400, error["message"])

    assert say(lean_server, "Good morning.", voice=voice, language="en-US").status_code == 200


@pytest.mark.real
def test_voices_and_health_tell_what_is_not_installed(lean_server: Server) -> None:
    for path in ("/voices", "/v1/audio/voices"):
        voices = httpx.get(f"{lean_server.url}{path}", timeout=60).json()["voices"]
        assert {voice["language"] for voice in voices if not voice["installed"]} == {"ja", "zh"}
        assert {"en-US", "en-GB", "es", "hi"} <= {voice["language"] for voice in voices if voice["installed"]}
    states = httpx.get(f"{lean_server.url}/health", timeout=60).json()["g2p"]["languages"]
    assert {code for code, state in states.items() if state == "not_installed"} == {"ja", "zh"}
