"""Windows and macOS: a server of one process uses nothing that only Linux has. Neither system itself is tried."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import soundfile

from tests import servers
from tests.assets.sandbox import Sandbox
from tests.servers import ROOT, Server, say

SERVICE = ("-m", "tests.services.other_system")
SITECUSTOMIZE = "from tests.services import other_system; other_system.pretend()\n"
SCHTASKS = '#!/bin/sh\necho "$1 $2 $3" >> "$0.calls"\n'
WINSOUND = """\
import shutil
SND_FILENAME = 1
def PlaySound(file, how):
    shutil.copy(file, "heard.wav")
"""
LIST = '{"text": "One.", "id": "a"}\n{"text": "Two.", "id": "b"}\n'


def environment(folder: Path, first: str = "") -> dict[str, str]:
    """For processes that run the line `first` before they are on another system."""
    (folder / "sitecustomize.py").write_text(f"{first}\n{SITECUSTOMIZE}", encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))), "USERNAME": "somebody"}  # as Windows sets it


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return environment(tmp_path_factory.mktemp("system"))


@pytest.fixture(scope="module")
def server(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("other")
    with servers.running(SERVICE, folder / "log", SERVER_PROCESSES="1", **environ) as server:
        yield server


def run(environ: dict[str, str], folder: Path, *arguments: str, **more: str) -> str:
    """A command of Python's in the folder. Returns its output."""
    command = [sys.executable, "-m", *arguments]
    settings = os.environ | {"HOME": str(folder), "JOBS_PATH": "none"} | environ | more
    ended = subprocess.run(command, env=settings, cwd=folder, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout


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


def test_a_server_speaks_for_commands(server: Server, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "list.jsonl").write_text(LIST)
    run(environ, tmp_path, "kokoro_server", "say", "Hello.", "--url", server.url, "-o", "hello.wav")
    run(environ, tmp_path, "kokoro_server", "bulk", "list.jsonl", "out", "--url", server.url)
    assert soundfile.info(tmp_path / "hello.wav").samplerate == soundfile.info(tmp_path / "out/b.wav").samplerate


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
    environ = os.environ | environment(tmp_path) | {"SERVER_PROCESSES": "2", "HOME": str(tmp_path)}
    ended = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "set SERVER_PROCESSES=1" in ended.stderr


def test_say_writes_a_file_and_plays(environ: dict[str, str], tmp_path: Path) -> None:
    path = os.pathsep.join((environ["PYTHONPATH"], str(tmp_path)))
    (tmp_path / "winsound.py").write_text(WINSOUND)
    for where in (("-o", "hello.mp3"), ()):
        run(
            environ, tmp_path, "tests.services.say", "Hello there.", *where, SAY_ENGINE="tiny", PYTHONPATH=path, PATH=""
        )
    for file in ("hello.mp3", "heard.wav"):
        assert soundfile.read(tmp_path / file)[0].any()


def test_bulk(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "list.jsonl").write_text(LIST)
    run(environ, tmp_path, "tests.services.bulk", "list.jsonl", "out", BULK_SPEAKER="double")
    assert sorted(path.name for path in (tmp_path / "out").glob("*.wav")) == ["a.wav", "b.wav"]


@pytest.mark.parametrize("source", ["npm", "pypi"])
def test_the_models_files_are_fetched(environ: dict[str, str], tmp_path: Path, source: str) -> None:
    sandbox = Sandbox(tmp_path / "sandbox")
    sandbox.folder.mkdir()
    sandbox.publish()
    arguments = (str(sandbox.folder), str(tmp_path / "cache"), source)
    fetched = json.loads(run(environ, tmp_path, "tests.assets.sandbox", *arguments, **sandbox.environment()))
    assert fetched["source"] == source
    assert Path(fetched["weights"]).is_file()
    listed = run(environ, tmp_path, "kokoro_server", "assets", "list", KOKORO_CACHE_DIR=str(tmp_path / "cache"))
    assert "af_heart" in listed


def test_a_service_is_a_task(environ: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "schtasks"
    program.write_text(SCHTASKS)
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert "<Command>" in run(environ, tmp_path, "kokoro_server", "service", "install", "--print")
    for action in ("install", "status", "uninstall"):
        run(environ, tmp_path, "kokoro_server", "service", action, PATH=path)
    calls = Path(f"{program}.calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["/create", "/run", "/query", "/end", "/delete"]
    assert all(call.endswith("/tn kokoro-server") for call in calls)


async def test_tools_for_assistants(tmp_path: Path) -> None:
    mcp = pytest.importorskip("mcp")
    environ = environment(tmp_path, "import mcp")  # its SDK has code for each system, and asks Python which this is
    settings = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "JOBS_PATH": "none", **environ}
    arguments = ["-m", "tests.services.mcp_stdio", str(tmp_path / "out")]
    started = mcp.StdioServerParameters(command=sys.executable, args=arguments, cwd=str(ROOT), env=settings)
    async with mcp.Client(started, read_timeout_seconds=300) as client:
        made = await client.call_tool("speak", {"text": "Hello there.", "to": "file", "file": "hello.flac"})
        assert not made.is_error, made.content
    assert soundfile.info(tmp_path / "out" / "hello.flac").samplerate == 24_000


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
