"""What the `kokoro-server` command does, one module for each larger subcommand."""

from __future__ import annotations

from kokoro_server.errors import KokoroError


class CommandFailed(KokoroError):
    """Ends the command with its message as the one line on stderr."""

    code = "command_failed"
