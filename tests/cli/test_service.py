"""`kokoro-server service`: files that each system's own reader accepts, and the commands that make them hold."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

from kokoro_server.cli import CommandFailed, service
from kokoro_server.cli import main as cli
from kokoro_server.cli.service import TASK_SCHEMA, describe
from kokoro_server.observability import logs

COMMAND = ["/opt/my tools/50% $HOME/python", "-P", "-m", "kokoro_server", "serve", "--port", "8881"]
SYSTEMCTL = """#!/bin/sh
echo "$@" >> {calls}
case "$*" in *{fails}*) echo "no bus" >&2; exit 1;; esac
"""


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr(logs, "configure", lambda _level: None)


def systemctl(folder: Path, monkeypatch: pytest.MonkeyPatch, fails: str = "nothing") -> Path:
    """A program that notes how it is called."""
    calls = folder / "calls"
    program = folder / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(SYSTEMCTL.format(calls=calls, fails=fails))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    return calls


@pytest.mark.parametrize("for_all", [False, True])
def test_systemd_accepts_the_unit(for_all: bool, tmp_path: Path) -> None:
    program = tmp_path / "50% of $HOME" / "python"
    program.parent.mkdir()
    program.symlink_to("/bin/true")
    made = describe("linux", [str(program), *COMMAND[1:]], for_all=for_all)
    assert made.path.name == "kokoro-server.service"
    if analyze := shutil.which("systemd-analyze"):
        unit = tmp_path / made.path.name
        unit.write_bytes(made.content.replace(b"/etc/kokoro-server", b"/tmp"))
        ended = subprocess.run([analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60)
        complaints = [line for line in ended.stderr.splitlines() if str(unit) in line or "kokoro-server" in line]
        assert complaints == [], ended.stderr
    text = made.content.decode()
    assert f'ExecStart="{tmp_path}/50%% of $HOME/python" -P -m kokoro_server serve --port 8881\n' in text
    assert ("User=" in text) == for_all
    assert f"WantedBy={'multi-user' if for_all else 'default'}.target" in text


@pytest.mark.parametrize("for_all", [False, True])
def test_launchd_reads_the_file(for_all: bool) -> None:
    made = describe("darwin", COMMAND, for_all=for_all)
    facts = plistlib.loads(made.content)
    assert (facts["Label"], facts["ProgramArguments"], facts["RunAtLoad"]) == ("kokoro-server", COMMAND, True)
    assert facts["KeepAlive"] == {"SuccessfulExit": False}
    assert ("UserName" in facts) == for_all
    assert made.path.parts[-2:] == ("LaunchDaemons" if for_all else "LaunchAgents", "kokoro-server.plist")


def test_windows_reads_the_task() -> None:
    command = [r"C:\Users\Jo & Al\python.exe", *COMMAND[1:]]
    made = describe("win32", command, for_all=False)
    assert made.content.startswith((b"\xff\xfe", b"\xfe\xff"))
    task = xml.fromstring(made.content)
    assert task.tag == f"{{{TASK_SCHEMA}}}Task"

    def value(path: str) -> str | None:
        return task.findtext("/".join(f"{{{TASK_SCHEMA}}}{tag}" for tag in path.split("/")))

    assert value("Actions/Exec/Command") == command[0]
    assert value("Actions/Exec/Arguments") == "-P -m kokoro_server serve --port 8881"
    assert value("Settings/ExecutionTimeLimit") == "PT0S"
    assert value("Triggers/LogonTrigger/UserId") == value("Principals/Principal/UserId")
    with pytest.raises(CommandFailed, match="--system is not for Windows"):
        describe("win32", command, for_all=True)


def test_another_system_is_refused() -> None:
    with pytest.raises(CommandFailed, match="not those of freebsd14"):
        describe("freebsd14", COMMAND, for_all=False)


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
class TestOnLinux:
    def test_print_changes_nothing(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["service", "install", "--print", "--port", "9000"]) == 0
        assert f"ExecStart={sys.executable} -P -m kokoro_server serve --port 9000\n" in capsys.readouterr().out
        assert list(tmp_path.iterdir()) == []

    def test_it_is_installed_shown_and_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        calls = systemctl(tmp_path, monkeypatch)
        unit = tmp_path / ".config/systemd/user/kokoro-server.service"
        for _ in range(2):  # a second time replaces it
            assert cli.main(["service", "install", "--host", "0.0.0.0"]) == 0
        assert "serve --host 0.0.0.0\n" in unit.read_text()
        assert str(tmp_path / ".config/kokoro-server/.env") in capsys.readouterr().out
        assert (tmp_path / ".config/kokoro-server").is_dir()
        assert cli.main(["service", "status"]) == 0
        assert cli.main(["service", "uninstall"]) == 0
        assert not unit.exists()
        once = ["daemon-reload", "enable kokoro-server.service", "restart kokoro-server.service"]
        said = [*once, *once, "status --no-pager kokoro-server.service", "disable --now kokoro-server.service"]
        assert calls.read_text().splitlines() == [f"--user {each}" for each in said]

    def test_what_systemd_says_is_passed_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        systemctl(tmp_path, monkeypatch, fails="enable")
        assert cli.main(["service", "install"]) == 1
        said = capsys.readouterr().err
        assert "systemctl --user enable kokoro-server.service' failed: no bus" in said
        assert "--system, with sudo" in said
        assert not list(tmp_path.rglob("kokoro-server.service"))

    def test_nothing_to_uninstall(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        systemctl(tmp_path, monkeypatch)
        assert cli.main(["service", "uninstall"]) == 1
        assert "there is nothing to uninstall" in capsys.readouterr().err

    def test_no_systemd(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert cli.main(["service", "install"]) == 1
        assert "systemctl is not there" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "prefix",
        ["/home/a/.cache/uv/archive-v0/k3j4", "/home/a/.local/share/pipx/.cache/4f3a", "/root/.cache/pipx/4f3a"],
    )
    def test_an_environment_for_one_call_is_refused(
        self, prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(service.sys, "prefix", prefix)  # type: ignore[attr-defined]
        assert cli.main(["service", "install", "--print"]) == 1
        assert "uv tool install" in capsys.readouterr().err
