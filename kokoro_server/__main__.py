"""`python -m kokoro_server` is the `kokoro-server` command."""

from kokoro_server.cli.main import command

command()
