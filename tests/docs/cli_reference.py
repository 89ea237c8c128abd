"""`docs/reference/cli.md`, written from the parser: `python -m tests.docs.cli_reference > docs/reference/cli.md`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from kokoro_server.cli import main as cli

HEAD = """\
# Command line

<!-- Written by `python -m tests.docs.cli_reference > docs/reference/cli.md` from the help texts in the code. -->

`kokoro-server` is in `.venv/bin` after `make serve`, and on the `PATH` where the package is installed. Each command
prints its help with `--help`. A failure is one line on standard error and a status other than 0.
"""


def render() -> str:
    return "\n".join([HEAD, *_sections(cli._parser())])


def _sections(parser: argparse.ArgumentParser, summary: str = "") -> Iterator[str]:
    """What a command says of itself, then its own commands. argparse's format_help differs from Python to Python."""
    commands = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    yield f"## {parser.prog}\n"
    if said := parser.description or summary:
        said = " ".join(said.split())
        yield f"{said[0].upper()}{said[1:].rstrip('.')}.\n"
    options = [action for action in parser._actions if action.dest != "help" and action not in commands]
    if options:
        yield "| argument | meaning |\n|---|---|"
        yield "".join(f"| {_invocation(option)} | {_help(parser, option)} |\n" for option in options)
    helps = {choice.dest: choice.help or "" for action in commands for choice in action._choices_actions}
    if helps:
        yield "| command | meaning |\n|---|---|"
        anchor = parser.prog.replace(" ", "-")
        yield "".join(f"| [`{name}`](#{anchor}-{name}) | {text} |\n" for name, text in helps.items())
    if parser.epilog:
        yield f"```text\n{parser.epilog.strip()}\n```\n"
    for action in commands:
        for name, command in action.choices.items():
            yield from _sections(command, helps[name])


def _invocation(option: argparse.Action) -> str:
    value = option.metavar or "|".join(map(str, option.choices or [])) or option.dest.upper()
    if not option.option_strings:
        return f"`{option.metavar or option.dest}`"
    takes = "" if option.nargs == 0 else f" [{value}]" if option.nargs == "?" else f" {value}"
    return f"`{', '.join(option.option_strings)}{takes}`".replace("|", "\\|")


def _help(parser: argparse.ArgumentParser, option: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(option) if option.help else ""


if __name__ == "__main__":
    sys.stdout.write(render())
