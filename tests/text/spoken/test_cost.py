"""What reading costs: little for plain text, and never more than in proportion to the length."""

from __future__ import annotations

import time

import pytest

from kokoro_server.languages import EN_US, Language
from kokoro_server.text.spoken import claims
from tests.growth import is_at_most

PLAIN = (
    "The old baker had been awake for hours. He kneaded the dough, humming a tune that nobody else remembered, while "
    'the cat slept by the oven. "You are late," said Dr. Miller when the boy came in. I never liked Mondays. '
) * 4
WORST = 3.0  # times the cost for twice the input: 2 is linear, 4 quadratic
UNITS = (
    "a. 1. 1, 1- 1: 1/ /a a/ \\a $ $1 * **a _ a_ ` ```\n | [ ]( [a]( ![ < <b> & &a; # @ a@ a@b. I A. ( (1 ' \" ° x "
    "1x ^ = ~ + +1 1e ½ ² π A1- 1a- f0- f0: 555- http://a www. a.b/ \\frac{ 1.2.3. 100,000, 1'1 – "
    "ab.cd. f(x (1', AAAAAA a[ 1x1\" 1,000/1"
).split(" ")
SPACED = [
    "1 ",
    "> ",
    "- a\n",
    "1. a\n",
    "Dr. ",
    "Jan 1 ",
    "5 May ",
    "1 BC ",
    "King A ",
    "between 1-",
    "1 000 ",
    "call 1 ",
    "order 1-1 ",
    "1 – May 1 ",
    "1 x 1 x 1 m ",
    "HTTP 404 or ",
    "JOIN US ",
    "IBM, ",
    "U ",
    "jan ",
    "sat, ",
    "dr a ",
    "u r ",
    "thx 2 b ",
    "5 usd ",
    "henry ii ",
    "12 oak ",
    "30 W Oak ",
    "5 A ",
    "8' x ",
    "Fed. R. ",
    "oak rd ",
    "two ft ",
    "12,50 ",
    "a2026T08:05",
    "step 1/",
    "1 Cor. ",
    "+1 (",
    "oven 10",
    "1h",
    "5★",
    "2s. 6d. ",
    "exp 09/28 ",
    ":a: ",
    ":ab:",
    "1.1,11-",
    "GB29 1234 ",
    "10 Jr. ",
]


def best_cost(text: str, language: Language = EN_US) -> float:
    best = float("inf")
    for _ in range(3):
        started = time.thread_time()
        claims(text, language)
        best = min(best, time.thread_time() - started)
    return best


def test_plain_text_takes_about_a_millisecond() -> None:
    assert best_cost(PLAIN) < 0.01  # ten times what it takes on a slow machine


@pytest.mark.parametrize("unit", [*UNITS, *SPACED])
def test_twice_the_text_costs_about_twice(unit: str) -> None:
    claims(unit * 10, EN_US)
    once, twice = unit * (2_000 // len(unit)), unit * (4_000 // len(unit))
    # Below five hundredths of a second it is the clock that is measured; so little harms nobody.
    assert is_at_most(WORST, lambda: claims(once, EN_US), lambda: claims(twice, EN_US), harmless=0.05)
