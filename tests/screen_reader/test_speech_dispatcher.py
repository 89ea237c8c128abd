"""`kokoro-server screen-reader install`, and the real Speech Dispatcher with what it has installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.screen_reader import driver
from tests.screen_reader.driver import SmallServer
from tests.servers import ROOT, wait_for

PROGRAMS = ("speech-dispatcher", "spd-say")
needs_programs = pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason="Speech Dispatcher is not installed")
CONFIGURATION = """\
LogLevel 3
AudioOutputMethod "libao"
DefaultVolume 100
SymbolsPreproc "no"
"""


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KOKORO_", "XDG_", "SPEECHD_"))}
    (home / "run").mkdir(exist_ok=True)
    return kept | {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run")}


def command(home: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "kokoro_server", "screen-reader", *arguments]
    return subprocess.run(
        words, cwd=ROOT, env=environment(home) | environ, capture_output=True, text=True, timeout=120, check=False
    )


def files(home: Path) -> list[str]:
    found = [path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()]
    return sorted(name for name in found if "kokoro" in name)


INSTALLED = [".config/speech-dispatcher/modules/kokoro.conf", ".local/libexec/speech-dispatcher-modules/sd_kokoro"]


def test_it_is_installed_and_removed(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9"
    done = command(tmp_path, "install", "--url", url, "-v", "bf_emma", KOKORO_API_KEY="a-secret-key")
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == INSTALLED
    assert all(str(tmp_path / name) in done.stdout for name in INSTALLED)
    assert "cannot be reached" in done.stdout
    assert "a-secret-key" not in done.stdout
    written = tmp_path / INSTALLED[0]
    assert written.stat().st_mode & 0o777 == 0o600
    for line in (f'Url "{url}"', 'Voice "bf_emma"', 'ApiKey "a-secret-key"'):
        assert line in written.read_text()
    assert (tmp_path / INSTALLED[1]).stat().st_mode & 0o777 == 0o755

    removed = command(tmp_path, "uninstall")
    assert removed.returncode == 0
    assert files(tmp_path) == []
    assert "nothing was installed" in command(tmp_path, "uninstall").stdout


def test_a_list_of_modules_gets_a_line_once(tmp_path: Path) -> None:
    own = tmp_path / ".config/speech-dispatcher/speechd.conf"
    own.parent.mkdir(parents=True)
    before = '# mine\nAddModule "espeak-ng" "sd_espeak-ng" "espeak-ng.conf"\n'
    own.write_text(before)
    for _ in range(2):
        assert command(tmp_path, "install", "--url", "http://127.0.0.1:9").returncode == 0
    lines = own.read_text().splitlines()
    assert [line for line in lines if "kokoro" in line] == [lines[-1]]
    assert lines[-1].startswith('AddModule "kokoro" "')
    command(tmp_path, "uninstall")
    assert own.read_text() == before


def test_a_wrong_address_is_refused_and_nothing_stays(tmp_path: Path) -> None:
    failed = command(tmp_path, "install", "--url", "localhost:8880")
    assert failed.returncode == 2
    assert "http://127.0.0.1:8880" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert files(tmp_path) == []


class Dispatcher:
    def __init__(self, home: Path) -> None:
        self._environment = environment(home)

    def say(self, *arguments: str, wait: bool = True) -> str:
        words = ["spd-say", "-o", "kokoro", *(["-w"] * wait), *arguments]
        done = subprocess.run(words, env=self._environment, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout


@pytest.fixture(scope="module")
def server() -> Iterator[SmallServer]:
    with driver.small_server() as running:
        yield running


@pytest.fixture(scope="module")
def dispatcher(server: SmallServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dispatcher]:
    """Its sound goes to libao, which discards it at once."""
    home = tmp_path_factory.mktemp("home")
    (home / ".libao").write_text("default_driver=null\n")
    own = home / ".config/speech-dispatcher/speechd.conf"
    own.parent.mkdir(parents=True)
    own.write_text(CONFIGURATION)
    assert command(home, "install", "--url", server.url).returncode == 0
    (home / "logs").mkdir()
    with (home / "log").open("wb") as log:
        words = ["speech-dispatcher", "-s", "-t", "0", "-L", str(home / "logs")]
        process = subprocess.Popen(words, env=environment(home), stdout=log, stderr=log)
    try:
        wait_for((home / "run/speech-dispatcher/speechd.sock").exists, 60)
        time.sleep(0.2)
        yield Dispatcher(home)
    finally:
        process.terminate()
        process.wait(timeout=30)


@needs_programs
def test_speech_dispatcher_speaks_through_it(dispatcher: Dispatcher, server: SmallServer) -> None:
    listed = dispatcher.say("-O")
    assert "kokoro" in listed
    assert "bf_emma" in dispatcher.say("-L")
    dispatcher.say("Hello there. It speaks.")
    assert server.last["text"] == "Hello there. It speaks."
    assert server.last["speed"] == 1
    dispatcher.say("-r", "50", "-p", "100", "-i", "0", "-y", "bf_emma", "Faster.")
    said = {name: server.last[name] for name in ("text", "speed", "pitch", "voice")}
    assert said == {"text": "Faster.", "speed": 1.732, "pitch": 6.0, "voice": "bf_emma"}
    dispatcher.say("-m", "all", "-l", "en-US", "Hello, (world).")
    assert "open bracket" in str(server.last["text"])
    dispatcher.say("-c", "!")
    assert server.last["text"] == "exclamation mark"
    dispatcher.say("-l", "fr", "Bonjour.")
    assert server.last["voice"] == "ff_siwis"


@needs_programs
def test_cancel_reaches_the_server_at_once(dispatcher: Dispatcher, server: SmallServer) -> None:
    while not server.left.empty():
        server.left.get()
    server.hang.set()
    try:
        count = len(server.bodies)
        dispatcher.say("A sentence that hangs.", wait=False)
        wait_for(lambda: len(server.bodies) > count, 20)
        asked = time.perf_counter()
        dispatcher.say("-C", wait=False)
        assert server.left.get(timeout=10) - asked < 2
    finally:
        server.hang.clear()
    dispatcher.say("And on it goes.")
    assert server.last["text"] == "And on it goes."
