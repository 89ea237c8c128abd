"""What English G2P costs, in seconds of CPU, for each text of the JSON list on standard input: a JSON list."""

from __future__ import annotations

import json
import sys
import time

from kokoro_server.g2p.service.app import _limit_libraries

_limit_libraries()

from kokoro_server.g2p.service.english import English  # noqa: E402


def cost(english: English, text: str) -> float:
    best = float("inf")
    for _ in range(4):
        started = time.thread_time()
        english(text)
        best = min(best, time.thread_time() - started)
    return best


def main() -> None:
    english = English(british=False)
    english("A first sentence loads what is loaded late.")
    json.dump([cost(english, text) for text in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
