"""The program that Speech Dispatcher starts, with the path of its configuration as the only argument."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kokoro_server.screen_reader.configuration import Configuration, ConfigurationError
from kokoro_server.screen_reader.protocol import Module


def main() -> int:
    try:
        configuration = Configuration.read(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    except ConfigurationError as error:
        sys.stdin.buffer.readline()  # INIT
        sys.stdout.write(f"399-{error}\n399 ERR CANT INIT MODULE\n")
        return 1
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may write between the answers
    Module(sys.stdin.buffer, answers, configuration).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
