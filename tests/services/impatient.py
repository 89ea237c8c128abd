"""A real server around the tiny model that notices silent peers in seconds. `python -m tests.services.impatient`.

The listening socket is this process's in either form; fronts ping as seldom as they always do.
"""

from __future__ import annotations

from kokoro_server.runtime import sockets as listening
from kokoro_server.server import serving
from tests.services import tiny

serving.PING_INTERVAL = 0.5
listening.UNREAD_GRACE = 5.0

if __name__ == "__main__":
    tiny.main("tests.services.tiny:load", tiny.load)
