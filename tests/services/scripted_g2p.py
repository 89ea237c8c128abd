"""The real G2P service with phonemizers that do as the text says: what it does with slow, stuck and dying workers.

`python -m tests.services.scripted_g2p --workers N` prints its port and ends with its standard input, as the real one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from kokoro_server.g2p.result import G2PResult
from kokoro_server.g2p.service import app as service
from kokoro_server.g2p.service import converter, phonemizers, workers
from kokoro_server.g2p.service.phonemizers import Phonemizer
from kokoro_server.languages import Language
from kokoro_server.runtime.subprocesses import StartReport

STUCK_AFTER = 0.5  # seconds
HUNG_AFTER = 3.0  # seconds, longer than any text of the tests that ends

begun = 0  # texts, in this process


def phonemize(text: str) -> G2PResult:
    global begun
    begun += 1
    cue, _, argument = text.partition(" ")
    match cue:
        case "wait":  # for the file, which another text may make
            parent = os.getppid()
            while not Path(argument).exists() and os.getppid() == parent:  # a killed service leaves no worker behind
                time.sleep(0.005)
        case "touch":
            Path(argument).touch()
        case "nap":
            time.sleep(0.02)
        case "hang":  # the first worker that gets it
            if not Path(argument).exists():
                Path(argument).touch()
                time.sleep(600)
        case "die":
            os._exit(1)
        case "pid":
            return G2PResult(str(os.getpid()))
        case "break":
            raise ZeroDivisionError("as told")
        case "count":
            return G2PResult(str(begun))
    return G2PResult(text)


def load(_language: Language, _english: Phonemizer | None = None) -> Phonemizer:
    return phonemize


if __name__ == "__main__":
    phonemizers.load = load
    converter.STUCK_AFTER = STUCK_AFTER
    workers.HUNG_AFTER = HUNG_AFTER
    service.main(StartReport())
