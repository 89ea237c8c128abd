"""`.env.example`, written from the settings: `python -m tests.env_example > .env.example`."""

from __future__ import annotations

import sys

from kokoro_server.cli.settings import render

if __name__ == "__main__":
    sys.stdout.write(render())
