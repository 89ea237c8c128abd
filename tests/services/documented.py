"""`kokoro-server` for the examples of the documentation, with every voice's name and without the real weights.

`python -m tests.services.documented ARGUMENTS`, settings from the environment. `serve` has the tiny model. `say` and
`bulk` have an engine that starts at once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from kokoro_server.cli import bulk, say
from kokoro_server.cli import main as cli
from kokoro_server.config.settings import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.errors import KokoroError
from kokoro_server.observability import logs
from tests import tiny
from tests.services import say as noisy
from tests.services import tiny as tiny_server


def every_voice() -> tuple[str, ...]:
    pins = json.loads(resources.files("kokoro_server.assets").joinpath("data/voice_pins.json").read_text("utf-8"))
    return tuple(Path(name).stem for name in pins)


def load(settings: Settings, folder: str | None = None) -> LoadedModel:
    return tiny_server.load(settings, folder)


def main(arguments: Sequence[str]) -> int:
    tiny.VOICES = every_voice()
    if arguments[0] == "serve":
        tiny_server.main("tests.services.documented:load", load)
        return 0
    if arguments[0] == "voices" and "--url" not in arguments:
        arguments = [*arguments, "--url", os.environ["DOCUMENTED_URL"]]  # without it the real model is fetched
    options = cli._parser().parse_args(arguments)
    if arguments[0] not in ("say", "bulk"):
        return cli.main(arguments)
    settings = Settings.load(dotenv=None)
    logs.configure(settings.log_level)
    try:
        command = {"say": say, "bulk": bulk}[arguments[0]]
        return command.run(settings, options, noisy.load)
    except KokoroError as error:
        sys.stderr.write(f"kokoro-server: {error.message}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
