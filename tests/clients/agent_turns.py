"""What tests of voice agents share: a turn, and what must be true of its speech."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import httpx
import pytest

from tests.servers import Server

SENTENCES = ["Hello there, my friend.", "It cost $5 on May 3rd.", "What do you think?"]
TURN = " ".join(SENTENCES)
LONG_TURN = [f"This is sentence number {n} of very many. " for n in range(60)]
NEAR = 0.1  # seconds
PATIENCE = 120  # seconds


def captioned_starts(server: Server, sentences: Sequence[str] = SENTENCES) -> list[tuple[str, float]]:
    """Each word and when it is said, if each sentence is a clip for itself."""
    starts, begin = list[tuple[str, float]](), 0.0
    for sentence in sentences:
        answer = httpx.post(f"{server.url}/tts/captioned", json={"text": sentence}, timeout=PATIENCE).json()
        starts += [(word["text"], begin + word["start"]) for word in answer["words"]]
        begin += answer["duration"]
    return starts


def check_words(server: Server, words: Sequence[tuple[str, float]]) -> None:
    """They are those of the turn, with their marks, and said when captions say so."""
    expected = captioned_starts(server)
    assert " ".join(word.strip() for word, _ in words) == TURN
    assert [start for _, start in words] == pytest.approx([start for _, start in expected], abs=NEAR)
    assert all(before <= after for (_, before), (_, after) in pairwise(words))


def rows_made(server: Server) -> int:
    made: int = httpx.get(f"{server.url}/health/batching").json()["performance"]["total_requests"]
    return made


def wait_until_idle(server: Server) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        status = httpx.get(f"{server.url}/health/batching").json()["queue_status"]
        if not status["current_size"] and not status["running_rows"] and not status["preparing"]:
            return
        time.sleep(0.05)
    raise AssertionError(f"work is left: {status}")
