"""The larger subcommands of `kokoro-server`, one module each, and what they need."""

from __future__ import annotations

from kokoro_server.errors import KokoroError


class CommandFailed(KokoroError):
    """Ends the command. Its message is the one line on stderr."""

    code = "command_failed"
