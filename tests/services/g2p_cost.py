"""What English G2P costs, in seconds of CPU, for each text of the JSON list on standard input: a JSON list."""

from __future__ import annotations

import json
import sys
import time

from kokoro_server.g2p.service.app import _limit_libraries

_limit_libraries()

from kokoro_server.g2p.service.english import English  # noqa: E402


def cost(english: English, text: str) -> float:
    started = time.thread_time()
    english(text)
    return time.thread_time() - started


def main() -> None:
    english = English(british=False)
    english("A first sentence loads what is loaded late.")
    texts = json.load(sys.stdin)
    # The least of some rounds, not of some times in a row: a machine that others use is slow for seconds.
    rounds = [[cost(english, text) for text in texts] for _ in range(4)]
    json.dump([min(each) for each in zip(*rounds, strict=True)], sys.stdout)


if __name__ == "__main__":
    main()
