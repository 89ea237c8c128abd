"""A real server around the tiny model that notices silent peers in seconds. `python -m tests.services.impatient`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kokoro_server import listening, logs, serving
from kokoro_server.app import create_app
from kokoro_server.config import Settings
from tests import tiny

serving.PING_INTERVAL = 0.5
listening.UNREAD_GRACE = 5.0

if __name__ == "__main__":
    settings = Settings.load(dotenv=None)
    logs.configure(settings.log_level)
    with tempfile.TemporaryDirectory() as folder:
        serving.run(create_app(settings, load=lambda _: tiny.load(Path(folder), backend=settings.backend)), settings)
