"""What holds for every English text, with the real G2P: all of it is said, in order, and every word is heard."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
import regex
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kokoro_server.g2p.result import G2PResult, Token
from kokoro_server.languages import EN_US
from kokoro_server.text import spoken
from kokoro_server.text.alignment.words import WordAlignedSentence
from kokoro_server.text.markup import PRONUNCIATION_MARKUP
from kokoro_server.text.options import ReadingOptions
from kokoro_server.text.splitter import TextSpan
from kokoro_server.text.written import WrittenText
from tests.text.heard import unheard

ROOT = Path(__file__).parents[3]
CASES = [case["text"] for case in json.loads((ROOT / "tests/text/spoken/cases.json").read_text(encoding="utf-8"))]
GLUE = [*"-–/.:*_()[] ", "\n"]
MATTERS = regex.compile(r"[\p{L}\p{N}\p{S}&@#%/\\§¶†*_]")
RAW = regex.compile(r"[\p{N}\p{S}&@#%/\\§¶†*_]")
glued = st.lists(st.tuples(st.sampled_from(CASES), st.sampled_from(GLUE)), min_size=2, max_size=4).map(
    lambda parts: "".join(text + glue for text, glue in parts)
)


def convert(http: httpx.Client, texts: list[str]) -> list[G2PResult]:
    results = list[G2PResult]()
    for start in range(0, len(texts), 200):
        reply = http.post("/convert/batch", json={"texts": texts[start : start + 200]}).raise_for_status().json()
        for result in reply["results"]:
            tokens = tuple(Token(each["text"], each["whitespace"], each["phonemes"]) for each in result["tokens"])
            results.append(G2PResult(result["phonemes"], tokens))
    return results


def check(http: httpx.Client, *texts: str) -> None:
    written = [(text, WrittenText([TextSpan(0, len(text), text)], EN_US, None, ReadingOptions())) for text in texts]
    read = [(text, sentence) for text, each in written for sentence in each.sentences()]
    sentences = [(text, each) for text, each in read if isinstance(each, WordAlignedSentence)]
    sent = [part for _, sentence in sentences for part in sentence.texts]
    assert not [text for text in sent if RAW.search(PRONUNCIATION_MARKUP.sub("", text))]
    assert unsaid(texts, sentences) == []
    results = iter(convert(http, sent))
    lost = []
    for text, sentence in sentences:
        own = [next(results) for _ in sentence.texts]
        lost += [
            (text, token) for result in own for token in result.tokens or () if unheard(token.text, token.phonemes)
        ]
        words = sentence.with_phonemes(own).words
        assert all(one.end <= other.start and one.phoneme_end <= other.phoneme_start for one, other in pairwise(words))
    assert lost == []


def unsaid(texts: tuple[str, ...], sentences: list[tuple[str, WordAlignedSentence]]) -> list[tuple[str, str]]:
    """What is neither passed on, nor in a claim whose words are, nor silent by the rule of a claim."""
    missing = []
    for text in texts:
        said = bytearray(len(text))
        for _, sentence in (pair for pair in sentences if pair[0] is text):
            for start, end in zip(sentence._text.starts, sentence._text.ends, strict=True):
                said[start:end] = b"\1" * (end - start)
        for first, last in spoken.passages(text):
            for claim in spoken.claims(text[first:last], EN_US):
                if not claim.words.strip(" ,.;"):
                    said[first + claim.start : first + claim.end] = b"\1" * (claim.end - claim.start)
        missing += [(text, text[n : n + 10]) for n, done in enumerate(said) if not done and MATTERS.match(text[n])]
    return missing


def test_every_case_is_heard(http: httpx.Client) -> None:
    check(http, *dict.fromkeys(CASES))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=glued)
@example(text="From 3:30–4:30pm.")
@example(text="40–60°C are fine")
@example(text="It rained. ½ of it.")
def test_cases_glued_together_are_heard(http: httpx.Client, text: str) -> None:
    check(http, text)


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/guide/speech.md", "CHANGELOG.md"])
def test_a_document_is_heard(http: httpx.Client, name: str) -> None:
    check(http, (ROOT / name).read_text(encoding="utf-8"))


def test_a_book_is_heard(http: httpx.Client) -> None:
    check(http, book(4_000))


PEOPLE = [
    "Mrs. Dalloway",
    "Dr. Weiss",
    "the old captain",
    "Anna-Maria",
    "Mr. O’Brien",
    "a girl of 12",
    "Henry VIII",
    "NASA",
]
DEEDS = [
    "walked to",
    "couldn't’ve known",
    "wrote about",
    "would never leave",
    "paid $1,250.50 for",
    "how're they in",
    "slept near",
]
PLACES = ["the harbour", "221B Baker St.", "Zürich", "a well-lit, half-empty café", "the U.S. embassy", "room no. 5"]
TIMES = [
    "at dawn",
    "on Dec. 25, 1901",
    "at 3:30pm",
    "for 2–3 hours",
    "in the 1990s",
    "twice",
    "10 km away",
    "50% of the time",
]
ENDS = [
    ".",
    "!",
    "?",
    "…",
    "; then it rained.",
    ', "and so," he said, "it ended."',
    " — or so I’m told.",
    "\n\n# Chapter XII\n\n",
]


def book(words: int) -> str:
    """Prose of about so many words."""
    choose, text = random.Random(7).choice, ""
    while text.count(" ") < words:
        text += f"{choose(PEOPLE)} {choose(DEEDS)} {choose(PLACES)} {choose(TIMES)}{choose(ENDS)} "
    return text


@pytest.mark.parametrize(
    ("text", "phonemes", "lost"),
    [
        ("From three thirty to four thirty p.m.", "fɹʌm θɹˈi θˈɜɹTi.", ["to", "four", "thirty", "p.m."]),
        ("forty to sixty degrees Celsius are fine", "fˈɔɹTi tə sˈɪksti dəɡɹˈiz sˈɛlsiəs fˈIn", ["are"]),
        ("I know the knight's psalm, though.", "ˌI nˈO ðə nˈIts sˈɑm, ðˌO.", []),
    ],
)
def test_a_lost_word_is_named(text: str, phonemes: str, lost: list[str]) -> None:
    assert unheard(text, phonemes) == lost
