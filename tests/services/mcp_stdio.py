"""`kokoro-server mcp` with the tiny model. `python -m tests.services.mcp_stdio FOLDER`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from kokoro_server.cli import mcp
from kokoro_server.config.settings import Settings
from kokoro_server.observability import logs
from tests import tiny

if __name__ == "__main__":
    settings = Settings.load(dotenv=None)
    logs.configure(settings.log_level)
    with tempfile.TemporaryDirectory() as folder:
        options = argparse.Namespace(url=None, folder=Path(sys.argv[1]))
        sys.exit(mcp.run(settings, options, load=lambda _: tiny.load(Path(folder))))
