"""docs/operate/settings.md, from the settings: `python -m tests.settings_reference > docs/operate/settings.md`."""

from __future__ import annotations

import re
import sys
from functools import partial

from kokoro_server.cli.settings import DocumentedSetting, entries, variables
from kokoro_server.config.fields import SettingGroup

INTRODUCTION = """\
# Settings

<!-- Written from kokoro_server/config/settings.py by tests/settings_reference.py. Change it there. -->

The server reads its settings from environment variables and from a file `.env` in the working folder. Every setting has
a default, so `kokoro-server serve` needs none of them.

- The environment wins over `.env`. An empty value means the default.
- A value that is not valid ends the start with one line that names the variable, the value and what is allowed.
- Older names go on working. Both names of one setting with different values in the same place are an error.
- `kokoro-server settings` prints all settings with their defaults, in the form of `.env`; so does `.env.example` in the
  repository. `GET /config` shows a running server's.

There are three groups: [everyday settings](#everyday-settings), [settings for operators](#settings-for-operators) and
[settings for experts](#settings-for-experts).
"""
GROUPS = {
    SettingGroup.EVERYDAY: "## Everyday settings\n",
    SettingGroup.OPERATORS: "## Settings for operators\n\nFor a server that many people use.\n",
    SettingGroup.EXPERTS: "## Settings for experts\n\nThe defaults are measured. Measure before you change one.\n",
}


def render() -> str:
    parts = [INTRODUCTION]
    for group, heading in GROUPS.items():
        parts += [heading, *map(_section, entries(group))]
    return "\n".join(parts)


def _section(entry: DocumentedSetting) -> str:
    facts = [f"Default: `{entry.default}`" if entry.default else "Default: empty"]
    if entry.allowed:
        facts.append(entry.allowed)
    if entry.aliases:
        facts.append("older name: " + ", ".join(f"`{alias}`" for alias in entry.aliases))
    return f"### {entry.name}\n\n{' · '.join(facts)}\n\n{_marked_up(entry)}\n"


def _marked_up(entry: DocumentedSetting) -> str:
    """The description in Markdown: settings and pages become links, other variables become code."""
    text = entry.description.replace("*", r"\*").replace("<", "&lt;")
    text = re.sub(r"\bdocs/([a-z-]+/[a-z-]+\.md)", r"[\1](../\1)", text)
    return re.sub(r"(?<![-/`])\b[A-Z][A-Z0-9_]{3,}\b", partial(_linked, entry.name), text)


def _linked(own: str, match: re.Match[str]) -> str:
    name = match[0]
    if name == own or name not in variables():
        return f"`{name}`" if "_" in name else name
    return f"[`{name}`](#{name.lower()})"


if __name__ == "__main__":
    sys.stdout.write(render())
