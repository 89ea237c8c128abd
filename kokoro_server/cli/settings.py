"""`kokoro-server settings`: every setting with its default and its description, in the form of `.env`."""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic.fields import FieldInfo

from kokoro_server.config.fields import SettingGroup
from kokoro_server.config.settings import Settings
from kokoro_server.config.sources import allowed, names_of

HEADER = """\
# Kokoro Server: every setting, with its default. Copy to .env and change what you need.
# The environment wins over .env; an empty value means the default.
"""
TITLES = {
    SettingGroup.EVERYDAY: "Everyday settings",
    SettingGroup.OPERATORS: "Settings for operators: a server that many people use",
    SettingGroup.EXPERTS: "Settings for experts: the defaults are measured; measure before you change one",
}
SECTIONS = {
    "SERVER_PROCESSES": "Processes, devices and files",
    "API_KEYS_FILE": "Access",
    "RATE_LIMIT": "Limits",
    "QUEUE_TIMEOUT": "Timeouts",
    "G2P_TIMEOUT": "G2P service",
    "MAX_JOBS": "Jobs",
    "KOKORO_CPU_PRECISION": "Engine",
    "FIRST_CHUNK_MAX_TOKENS": "Pieces of text",
    "ENABLE_KOKORO_BATCHING": "Batching",
}  # by the first setting of each


def run(_settings: Settings, _options: argparse.Namespace) -> int:
    sys.stdout.write(render())
    return 0


@dataclass(frozen=True, slots=True)
class DocumentedSetting:
    """A setting as it is documented. `default` is its text in `.env`; `allowed` is None where any text may be valid."""

    name: str
    aliases: list[str]
    default: str
    allowed: str | None
    description: str


def variables() -> list[str]:
    """The name of every variable that is read, older names included."""
    return [name for field in Settings.model_fields.values() for name in names_of(field)]


def entries(group: SettingGroup) -> Iterator[DocumentedSetting]:
    described = descriptions()
    for key, field in Settings.model_fields.items():
        name, *aliases = names_of(field)
        if group_of(field) == group:
            yield DocumentedSetting(name, aliases, _written(field.default), allowed(field), described[key])


def group_of(field: FieldInfo) -> SettingGroup:
    assert isinstance(field.json_schema_extra, dict)
    return SettingGroup(str(field.json_schema_extra["group"]))


def render() -> str:
    parts = [HEADER]
    for group, title in TITLES.items():
        parts.append(f"## {title}\n")
        for entry in entries(group):
            if entry.name in SECTIONS:
                parts.append(f"# --- {SECTIONS[entry.name]}\n")
            text = entry.description + "".join(f" (Older name: {alias}.)" for alias in entry.aliases)
            comment = textwrap.wrap(text, 118, break_on_hyphens=False, break_long_words=False)
            parts.append("".join(f"# {line}\n" for line in comment) + f"{entry.name}={entry.default}\n")
    return "\n".join(parts)


def descriptions() -> dict[str, str]:
    """The docstring below each field of `Settings`, as one line."""
    [settings] = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(settings, ast.ClassDef)
    found = {}
    for field, below in zip(settings.body, settings.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(text))):
                found[key] = " ".join(text.split())
    return found


def _written(default: object) -> str:
    match default:
        case None | () | Path():  # the path of the user's own folder differs from machine to machine
            return ""
        case bool():
            return str(default).lower()
        case float():
            return f"{default:g}"
    return str(default)
