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
NEAR, MOST_BETWEEN = 0.1, 1.5  # seconds
PATIENCE = 120  # seconds


def captioned_starts(server: Server, sentence: str) -> list[float]:
    """When its words are said, if it is a clip for itself."""
    answer = httpx.post(f"{server.url}/tts/captioned", json={"text": sentence}, timeout=PATIENCE).json()
    return [word["start"] for word in answer["words"]]


def check_words(server: Server, words: Sequence[tuple[str, float]]) -> None:
    """They are those of the turn, with their marks, and said when captions say so, with a pause between sentences."""
    assert " ".join(word.strip() for word, _ in words) == TURN
    starts = [start for _, start in words]
    assert all(before <= after for before, after in pairwise(starts))
    for sentence in SENTENCES:
        expected = captioned_starts(server, sentence)
        given, starts = starts[: len(expected)], starts[len(expected) :]
        assert [start - given[0] for start in given] == pytest.approx(
            [start - expected[0] for start in expected], abs=NEAR
        )
        if starts:
            assert starts[0] - given[-1] < MOST_BETWEEN


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
