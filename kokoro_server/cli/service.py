"""`kokoro-server service`: a server that the system starts: by systemd, launchd or Windows's Task Scheduler."""

from __future__ import annotations

import argparse
import getpass
import os
import plistlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as xml

import platformdirs

from kokoro_server.cli import CommandFailed
from kokoro_server.config.settings import Settings
from kokoro_server.runtime.files import new_file

NAME = "kokoro-server"
DESCRIPTION = "Kokoro Server, text to speech"
TASK_SCHEMA = "http://schemas.microsoft.com/windows/2004/02/mit/task"
# Environments that `uvx` and `pipx run` make for one call and delete later.
PASSING = re.compile(
    r"[/\\](?:archive-v\d+|environments-v\d+|pipx[/\\]\.cache|\.cache[/\\]pipx|pipx[/\\]cache)[/\\]", re.I
)
MANAGERS = {"linux": "systemctl", "darwin": "launchctl", "win32": "schtasks"}


@dataclass(frozen=True, slots=True)
class Service:
    """How one system keeps a server running: the file that says so, and the commands that make it hold."""

    path: Path
    content: bytes
    folder: Path  # where it runs, and where its .env is
    install: Sequence[Sequence[str]]
    uninstall: Sequence[Sequence[str]]
    status: Sequence[str]
    hint: str = ""


def run(_settings: Settings, options: argparse.Namespace) -> int:
    service = describe(sys.platform, arguments(options), for_all=options.system)
    if options.action == "install" and options.print:
        sys.stdout.write(service.content.decode("utf-16" if service.path.suffix == ".xml" else "utf-8"))
        return 0
    if not shutil.which(MANAGERS[sys.platform]):
        raise CommandFailed(f"service: {MANAGERS[sys.platform]} is not there; start 'kokoro-server serve' another way")
    if options.action == "status":
        return subprocess.run(service.status, check=False).returncode
    if options.action == "install":
        _install(service)
    else:
        _uninstall(service)
    return 0


def arguments(options: argparse.Namespace) -> list[str]:
    """The command that the service runs. Raises CommandFailed if it would not exist for long."""
    if PASSING.search(f"{sys.prefix}{os.sep}") and options.action == "install":
        raise CommandFailed(
            f"service: {sys.prefix} is made for one call and deleted later; install the package first, with "
            "'uv tool install', 'pipx install' or 'pip install'"
        )
    given = {"--host": options.host, "--port": options.port} if options.action == "install" else {}
    more = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    return [sys.executable, "-P", "-m", "kokoro_server", "serve", *more]


def describe(system: str, command: Sequence[str], *, for_all: bool) -> Service:
    """The service of this user, which begins when they log in; or `for_all`, which begins with the machine."""
    make = {"linux": _systemd, "darwin": _launchd, "win32": _task}.get(system)
    if make is None:
        raise CommandFailed(f"service: knows systemd, launchd and Windows's Task Scheduler, but not those of {system}")
    return make(command, for_all)


def _systemd(command: Sequence[str], for_all: bool) -> Service:
    unit = f"{NAME}.service"
    folder = Path("/etc", NAME) if for_all else Path(platformdirs.user_config_dir(NAME))
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    path = Path("/etc/systemd/system", unit) if for_all else home / "systemd" / "user" / unit
    control = ["systemctl"] if for_all else ["systemctl", "--user"]
    lines = [
        "[Unit]",
        f"Description={DESCRIPTION}",
        *(["Wants=network-online.target", "After=network-online.target"] if for_all else []),
        "",
        "[Service]",
        f"ExecStart={_systemd_word(command[0])} {' '.join(_systemd_word(word, '$$') for word in command[1:])}",
        f"WorkingDirectory={str(folder).replace('%', '%%')}",
        *([f"User={_user()}"] if for_all else []),
        "Restart=on-failure",
        "RestartSec=5",
        "TimeoutStopSec=30",
        "NoNewPrivileges=yes",
        "",
        "[Install]",
        f"WantedBy={'multi-user' if for_all else 'default'}.target",
        "",
    ]
    return Service(
        path,
        "\n".join(lines).encode(),
        folder,
        install=([*control, "daemon-reload"], [*control, "enable", unit], [*control, "restart", unit]),
        uninstall=([*control, "disable", "--now", unit],),
        status=[*control, "status", "--no-pager", unit],
        hint="" if for_all else "To run it also while you are not logged in: loginctl enable-linger",
    )


def _systemd_word(word: str, dollar: str = "$") -> str:
    """A word of a command as systemd reads it. Spaces need quotes, and `%` has a meaning; `$` not in the first word."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", dollar)
    return f'"{escaped}"' if re.search(r"[\s'\";\\]", word) else escaped


def _launchd(command: Sequence[str], for_all: bool) -> Service:
    library = Path("/Library") if for_all else Path.home() / "Library"
    folder = library / "Application Support" / NAME
    path = library / ("LaunchDaemons" if for_all else "LaunchAgents") / f"{NAME}.plist"
    log = str(library / "Logs" / f"{NAME}.log")
    facts: dict[str, object] = {
        "Label": NAME,
        "ProgramArguments": list(command),
        "WorkingDirectory": str(folder),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    if for_all:
        facts["UserName"] = _user()
    domain = "system" if for_all else f"gui/{os.getuid() if hasattr(os, 'getuid') else 0}"
    return Service(
        path,
        plistlib.dumps(facts),
        folder,
        install=(["launchctl", "bootstrap", domain, str(path)],),
        uninstall=(["launchctl", "bootout", f"{domain}/{NAME}"],),
        status=["launchctl", "print", f"{domain}/{NAME}"],
        hint=f"Its log is {log}",
    )


def _task(command: Sequence[str], for_all: bool) -> Service:
    if for_all:
        raise CommandFailed("service: --system is not for Windows; without it, the server starts when you log in")
    folder = Path(platformdirs.user_config_dir(NAME, appauthor=False))
    user = "\\".join(filter(None, (os.environ.get("USERDOMAIN"), getpass.getuser())))
    task = xml.Element("Task", version="1.2", xmlns=TASK_SCHEMA)
    for path, text in (
        ("RegistrationInfo/Description", DESCRIPTION),
        ("Triggers/LogonTrigger/UserId", user),
        ("Principals/Principal/UserId", user),
        ("Principals/Principal/LogonType", "InteractiveToken"),
        ("Settings/MultipleInstancesPolicy", "IgnoreNew"),
        ("Settings/DisallowStartIfOnBatteries", "false"),
        ("Settings/StopIfGoingOnBatteries", "false"),
        ("Settings/ExecutionTimeLimit", "PT0S"),  # for ever; otherwise three days
        ("Settings/RestartOnFailure/Interval", "PT1M"),
        ("Settings/RestartOnFailure/Count", "3"),
        ("Actions/Exec/Command", command[0]),
        ("Actions/Exec/Arguments", subprocess.list2cmdline(command[1:])),
        ("Actions/Exec/WorkingDirectory", str(folder)),
    ):
        element = task
        for tag in path.split("/"):
            found = element.find(tag)
            element = xml.SubElement(element, tag) if found is None else found
        element.text = text
    for tag, attribute in (("Principals/Principal", "id"), ("Actions", "Context")):
        found = task.find(tag)
        assert found is not None
        found.set(attribute, "Author")
    xml.indent(task)
    file = folder / f"{NAME}.xml"
    return Service(
        file,
        xml.tostring(task, encoding="utf-16", xml_declaration=True),  # schtasks reads no other encoding
        folder,
        install=(["schtasks", "/create", "/tn", NAME, "/xml", str(file), "/f"], ["schtasks", "/run", "/tn", NAME]),
        uninstall=(["schtasks", "/end", "/tn", NAME], ["schtasks", "/delete", "/tn", NAME, "/f"]),
        status=["schtasks", "/query", "/tn", NAME, "/v", "/fo", "list"],
    )


def _user() -> str:
    """Whom a service of the whole machine runs as: whoever called sudo, as the package and the model are theirs."""
    return os.environ.get("SUDO_USER") or getpass.getuser()


def _install(service: Service) -> None:
    is_new = not service.path.exists()
    try:
        service.folder.mkdir(parents=True, exist_ok=True)
        service.path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(service.path) as unfinished:
            unfinished.write_bytes(service.content)
    except OSError as error:
        raise CommandFailed(f"service: cannot write {service.path}: {error.strerror}") from error
    if sys.platform == "darwin":  # it takes no second definition of the same service
        subprocess.run(service.uninstall[0], check=False, capture_output=True)
    try:
        for command in service.install:
            _call(command)
    except CommandFailed as error:
        if is_new:
            service.path.unlink(missing_ok=True)
        if sys.platform == "linux" and "bus" in error.message:
            raise CommandFailed(f"{error.message}; --system, with sudo, needs no login session") from error
        raise
    sys.stdout.write(f"{service.path}\nSettings are read from {service.folder / '.env'}\n")
    if service.hint:
        sys.stdout.write(f"{service.hint}\n")


def _uninstall(service: Service) -> None:
    if not service.path.exists():
        raise CommandFailed(f"service: {service.path} does not exist, so there is nothing to uninstall")
    try:
        for command in service.uninstall[:-1]:
            subprocess.run(command, check=False, capture_output=True)  # it may have ended by itself
        _call(service.uninstall[-1])
    finally:
        try:
            service.path.unlink(missing_ok=True)
        except OSError as error:
            raise CommandFailed(f"service: cannot remove {service.path}: {error.strerror}") from error
    sys.stdout.write(f"{service.path} removed\n")


def _call(command: Sequence[str]) -> None:
    ended = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
    if ended.returncode:
        said = " ".join((ended.stderr or ended.stdout).split()) or f"exit status {ended.returncode}"
        raise CommandFailed(f"service: '{' '.join(command)}' failed: {said}")
