"""The `kokoro-server` command: `main`, and one module for each larger subcommand."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from kokoro_server.config.settings import Settings
from kokoro_server.errors import KokoroError

RunCommand = Callable[[Settings, argparse.Namespace], int]


def one_line(text: str, width: int) -> str:
    """A text for one line of a table, at most `width` characters long."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


class CommandFailed(KokoroError, code="command_failed"):
    """Ends the command. Its message is the one line on stderr."""
