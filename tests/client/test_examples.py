"""The examples of the client's docstring and of examples.txt run."""

from __future__ import annotations

import doctest
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import kokoro_server.client
from kokoro_server.client.wire import DEFAULT_URL
from tests.servers import ROOT, Server

EXAMPLES = Path(__file__).with_name("examples.txt")
HEAVY = ("torch", "fastapi", "starlette", "numpy", "onnxruntime", "kokoro", "pydantic", "soundfile", "transformers")


def test_the_documented_examples_run(tiny_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    text = f"{kokoro_server.client.__doc__}\n{EXAMPLES.read_text(encoding='utf-8')}"
    assert DEFAULT_URL in text
    examples = doctest.DocTestParser().get_doctest(
        text.replace(DEFAULT_URL, tiny_server.url), {}, "kokoro_server.client", None, None
    )
    shown: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(examples, out=shown.append)
    assert results.attempted > 20
    assert results.failed == 0, "".join(shown)
    assert (tmp_path / "hello.wav").stat().st_size > 1000
    assert (tmp_path / "story.mp3").stat().st_size > 1000
    assert (tmp_path / "ready.wav").stat().st_size > 1000


def test_importing_the_client_loads_nothing_heavy() -> None:
    code = f"import sys, kokoro_server.client; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
