"""The `kokoro-server` command: `main`, and one module for each larger subcommand."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from kokoro_server.config.settings import Settings
from kokoro_server.errors import KokoroError

RunCommand = Callable[[Settings, argparse.Namespace], int]


class CommandFailed(KokoroError, code="command_failed"):
    """Ends the command. Its message is the one line on stderr."""
