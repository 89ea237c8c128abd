"""`kokoro-server screen-reader`: the module of Speech Dispatcher, for Orca and other screen readers on Linux."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from kokoro_server.cli import CommandFailed
from kokoro_server.client import ClientError, KokoroClient
from kokoro_server.config.settings import Settings
from kokoro_server.runtime.files import new_file
from kokoro_server.screen_reader.configuration import Configuration, ConfigurationError

NAME = "kokoro"
OLDEST = (0, 11)  # which plays what modules send, and looks for modules in a user's folder
SYSTEM = Path("/etc/speech-dispatcher/speechd.conf")
_ADD_MODULE = re.compile(r"^\s*AddModule\b", re.MULTILINE | re.IGNORECASE)
_OURS = re.compile(rf'\s*AddModule\s+"{NAME}"', re.IGNORECASE)
RESTART = "systemctl --user restart speech-dispatcher   # or: killall speech-dispatcher; it starts again when needed"


def run(settings: Settings, options: argparse.Namespace) -> int:
    if sys.platform == "win32" or sys.platform == "darwin":
        raise CommandFailed("screen-reader: Speech Dispatcher is a program of Linux and the BSDs")
    if options.action == "uninstall":
        return _uninstall()
    return _install(settings, options)


def _module() -> Path:
    """Where Speech Dispatcher looks for a user's modules: beside the folder of data, not in it."""
    return _data().parent / "libexec/speech-dispatcher-modules" / f"sd_{NAME}"


def _data() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")


def _configuration() -> Path:
    return _folder() / "modules" / f"{NAME}.conf"


def _folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "speech-dispatcher"


def _install(settings: Settings, options: argparse.Namespace) -> int:
    url = options.url or f"http://127.0.0.1:{settings.port}"
    wanted = Configuration(url, options.voice or "", settings.key_to_send or "")
    try:
        _write(_configuration(), wanted.text(), 0o600)
        Configuration.read(_configuration())
    except ConfigurationError as error:
        _configuration().unlink()
        raise CommandFailed(f"screen-reader: {error}") from error
    program = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m kokoro_server.screen_reader "$@"\n'
    _write(_module(), program, 0o755)
    _data().mkdir(parents=True, exist_ok=True)  # Speech Dispatcher goes through it
    _say(f"wrote {_module()}", f"wrote {_configuration()}")
    _name_the_module()
    _say(*_notes(url, wanted.api_key), "", "Then restart Speech Dispatcher, and hear it:", "", f"  {RESTART}")
    _say(f"  spd-say -o {NAME} 'Hello.'", "", f"In Orca: Preferences, Voice, Speech synthesizer: {NAME}.")
    return 0


def _uninstall() -> int:
    removed = [path for path in (_module(), _configuration()) if path.exists()]
    for path in removed:
        path.unlink()
        _say(f"removed {path}")
    own = _folder() / "speechd.conf"
    if own.is_file() and (kept := _without_ours(own)) != own.read_text(encoding="utf-8"):
        _write(own, kept, own.stat().st_mode & 0o777)
        _say(f"removed a line of {own}")
        removed.append(own)
    _say(*([f"Now: {RESTART}"] if removed else ["nothing was installed"]))
    return 0


def _name_the_module() -> None:
    """A configuration that lists modules has those alone, so that ours must be on the list."""
    line = f'AddModule "{NAME}" "{_module()}" "{_configuration()}"'
    own = _folder() / "speechd.conf"
    if own.is_file():
        kept = _without_ours(own)
        if _ADD_MODULE.search(kept):
            _write(own, f"{kept.rstrip()}\n{line}\n", own.stat().st_mode & 0o777)
            _say(f"added a line to {own}")
    elif SYSTEM.is_file() and _ADD_MODULE.search(SYSTEM.read_text(encoding="utf-8", errors="replace")):
        _say(f"{SYSTEM} lists the modules: add this line to it, as root:", "", f"  {line}", "")


def _without_ours(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not _OURS.match(line))


def _notes(url: str, key: str) -> list[str]:
    notes = []
    if key:
        notes.append("it sends the key of KOKORO_API_KEY, which is in that file; only you can read it")
    try:
        with KokoroClient(url, api_key=key) as client:
            notes.append(f"{url} has {len(client.voices())} voices")
    except ClientError as error:
        notes.append(f"note: {error.message}; until the server runs, espeak-ng speaks if it is installed")
    version = _version()
    if version is None:
        notes.append("note: Speech Dispatcher is not installed; on Debian: apt install speech-dispatcher")
    elif version < OLDEST:
        notes.append(f"note: Speech Dispatcher {'.'.join(map(str, version))} is too old; 0.11 or newer is needed")
    return notes


def _version() -> tuple[int, ...] | None:
    program = shutil.which("speech-dispatcher")
    if not program:
        return None
    try:
        shown = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"(\d+)\.(\d+)", shown)
    return tuple(map(int, found.groups())) if found else OLDEST


def _write(path: Path, text: str, mode: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as unfinished:
            unfinished.touch(mode=0o600)
            unfinished.write_text(text, encoding="utf-8")
            unfinished.chmod(mode)
    except OSError as error:
        raise CommandFailed(f"screen-reader: {path} cannot be written: {error.strerror or error}") from error


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
