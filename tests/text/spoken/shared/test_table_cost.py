"""What reading costs: little for plain text, and never more than in proportion to the length."""

from __future__ import annotations

import time

import pytest

from kokoro_server.languages import ES, FR, HI, IT, PT_BR, Language
from kokoro_server.text.spoken import claims
from tests.growth import is_at_most

PLAIN = {
    ES: "El viejo panadero llevaba horas despierto. Amasaba, tarareando una canción, y la gata dormía junto al horno. ",
    FR: "Le vieux boulanger était debout depuis des heures. Il pétrissait en fredonnant, et le chat dormait. ",
    HI: "बूढ़ा हलवाई घंटों से जाग रहा था। वह आटा गूँथते हुए एक धुन गुनगुना रहा था, और बिल्ली चूल्हे के पास सो रही थी। ",
    IT: "Il vecchio fornaio era sveglio da ore. Impastava canticchiando, e la gatta dormiva accanto al forno. ",
    PT_BR: "O velho padeiro estava acordado havia horas. Amassava cantarolando, e a gata dormia junto ao forno. ",
}
WORST = 3.0  # times the cost for twice the input: 2 is linear, 4 quadratic
UNITS = (
    "a. 1. 1, 1- 1: 1/ /a a/ \\a $ $1 1€ * **a _ a_ ` ```\n | [ ]( ![ < <b> & &a; # @ a@ a@b. I A. ( (1 ' ° 1° x 1x ^ "
    "= ~ + +1 ½ ² 1h www. http://a a.b/ 1.2.3. 100.000. –"
).split(" ")
SPACED = ["1 ", "- a\n", "Sr. ", "1 de ", "siglo V ", "1 000 ", "tel 1 ", "1 km ", "1 - ", "Luis X ", "= 1 - "]


def cost(text: str, language: Language) -> float:
    best = float("inf")
    for _ in range(3):
        started = time.thread_time()
        claims(text, language)
        best = min(best, time.thread_time() - started)
    return best


@pytest.mark.parametrize("language", PLAIN, ids=lambda language: language.code)
def test_plain_text_takes_about_a_millisecond(language: Language) -> None:
    assert cost(PLAIN[language] * 9, language) < 0.01  # ten times what it takes on a slow machine


@pytest.mark.parametrize("unit", [*UNITS, *SPACED])
def test_twice_the_text_costs_about_twice(unit: str) -> None:
    claims(unit * 10, ES)
    once, twice = unit * (2_000 // len(unit)), unit * (4_000 // len(unit))
    # Below five hundredths of a second it is the clock that is measured; so little harms nobody.
    assert is_at_most(WORST, lambda: claims(once, ES), lambda: claims(twice, ES), harmless=0.05)
