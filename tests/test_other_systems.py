"""Windows and macOS: a server of one process uses nothing that only Linux has. Neither system itself is tried."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import soundfile

from tests import servers
from tests.servers import ROOT, Server, say

SERVICE = ("-m", "tests.services.other_system")
SITECUSTOMIZE = "from tests.services import other_system; other_system.pretend()\n"
LIST = '{"text": "One.", "id": "a"}\n{"text": "Two.", "id": "b"}\n'


def environment(folder: Path) -> dict[str, str]:
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))), "USERNAME": "somebody"}  # as Windows sets it


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return environment(tmp_path_factory.mktemp("system"))


@pytest.fixture(scope="module")
def server(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("other")
    with servers.running(SERVICE, folder / "log", SERVER_PROCESSES="1", **environ) as server:
        yield server


def test_it_speaks_in_every_format(server: Server) -> None:
    for format in ("wav", "mp3", "opus", "flac", "aac"):
        spoken = say(server, "Good morning.", format=format)
        assert spoken.status_code == 200, spoken.text
        assert len(spoken.content) > 1000
    assert soundfile.read(io.BytesIO(say(server, "Buenos días.", voice="ef_dora").content))[0].any()


def test_it_streams(server: Server) -> None:
    body = {"text": "One sentence. And another one.", "format": "wav"}
    with httpx.stream("POST", f"{server.url}/tts/stream", json=body, timeout=120) as answer:
        assert answer.status_code == 200
        assert len(b"".join(answer.iter_bytes())) > 10_000


def test_it_makes_a_job(server: Server) -> None:
    made = httpx.post(f"{server.url}/jobs", files={"file": ("list.jsonl", LIST)}, timeout=60)
    assert made.status_code in (200, 201, 202), made.text
    job = f"{server.url}/jobs/{made.json()['id']}"
    servers.wait_for(lambda: httpx.get(job).json()["state"] in ("done", "failed"))
    assert httpx.get(job).json()["state"] == "done", httpx.get(job).text


def test_nothing_is_degraded_and_its_log_has_no_traceback(server: Server) -> None:
    health = httpx.get(f"{server.url}/health", timeout=60).json()
    assert (health["status"], health["degraded"]) == ("ok", [])
    assert "Traceback" not in server.lines()


def test_a_signal_stops_it(server: Server) -> None:
    """The last test of this server."""
    child = server.child_pid()
    assert server.stop() == 0
    assert servers.gone_within(child, 10)
    assert "Traceback" not in server.lines()


def test_it_says_that_windows_has_one_process_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kokoro_server", "serve", "--port", "0"]
    environ = os.environ | environment(tmp_path) | {"SERVER_PROCESSES": "2"}
    ended = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "set SERVER_PROCESSES=1" in ended.stderr


def test_commands_import_nothing_that_it_lacks(environ: dict[str, str]) -> None:
    """Every module that is not of several processes or of Ray can be imported. MCP's SDK knows the systems itself."""
    code = (
        "import importlib, pkgutil, kokoro_server\n"
        "for found in pkgutil.walk_packages(kokoro_server.__path__, 'kokoro_server.'):\n"
        "    name = found.name\n"
        "    if not name.endswith(('__main__', 'traced_ops', 'makers.ray', 'mcp.sdk')) and '.cluster' not in name:\n"
        "        'cuda' in name or importlib.import_module(name)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environ, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
