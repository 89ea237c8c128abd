"""No text holds a G2P worker for long: what it costs grows with its length, and is not far from that of prose."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.g2p.conftest import ROOT, SOURCE_TREE

UNITS = [
    *("a-", "A-", "a.", "a'", "A_", "aA", "1a", "W.", "α-", "a(", "ж-", "1-", "a/", "don't", "y'all'd've-", "ZORBLAX-"),
    *("(", "[a", "$", "*", "😀", "\u0301", "a\u0301-", "x"),
]
SIZE = 400  # characters
PROSE = ("The old baker had been awake for hours and kneaded the dough. " * 20)[: 2 * SIZE]
WORST_RATIO = 3.0  # for twice the text: 2 is linear, 4 quadratic
WORST_TO_PROSE = 50.0  # it is some 20; it was several times as much


def test_hostile_text_costs_no_more_than_some_prose() -> None:
    texts = [PROSE, *((unit * SIZE)[:size] for unit in UNITS for size in (SIZE, 2 * SIZE))]
    best = measure(texts)
    for _ in range(3):
        if slow(best):
            best = list(map(min, best, measure(texts)))
    assert slow(best) == []


def measure(texts: list[str]) -> list[float]:
    command = [sys.executable, "-P", "-W", "ignore", "-m", "tests.services.g2p_cost"]
    done = subprocess.run(
        command, input=json.dumps(texts), env=SOURCE_TREE, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    costs: list[float] = json.loads(done.stdout)
    return costs


def slow(measured: list[float]) -> list[str]:
    prose, *costs = measured
    pairs = zip(UNITS, costs[::2], costs[1::2], strict=True)
    return [
        f"{unit!a} {once:.3f} s, twice {twice:.3f} s, prose {prose:.3f} s"
        for unit, once, twice in pairs
        if twice > WORST_RATIO * max(once, prose) or twice > WORST_TO_PROSE * prose
    ]
