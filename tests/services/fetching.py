"""A server that fetches its model's files from the registries of a sandbox, then speaks with the tiny model.

`python -m tests.services.fetching`; SANDBOX names the folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kokoro_server.assets import convert, library
from kokoro_server.config.settings import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.errors import SetupError
from tests.assets.sandbox import Sandbox
from tests.services import tiny


def load(settings: Settings, folder: str | None = None) -> LoadedModel:
    sandbox = Sandbox(Path(os.environ["SANDBOX"]))
    convert.to_safetensors = sandbox.convert
    library.ensure(settings.cache_dir, settings.asset_source, settings.model_path, catalog=sandbox.catalog)
    return tiny.load(settings, folder)


if __name__ == "__main__":
    try:
        tiny.main("tests.services.fetching:load", load)
    except SetupError as error:
        sys.exit(str(error))
