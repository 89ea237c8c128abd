"""Words that are written alike and said in several ways, by the words around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kokoro_server.g2p.service.english import English
from kokoro_server.g2p.service.heteronyms import _tables

pytestmark = pytest.mark.filterwarnings("ignore:open_text is deprecated:DeprecationWarning")  # misaki's

SENTENCES = Path(__file__).with_name("data") / "heteronyms.txt"
_HEADING = re.compile(r"(?P<word>[a-z]+) (?P<phonemes>\S*[ˈˌ]\S*)")
LEAST_RIGHT = 0.97

# American: what must stay as it is, though it has a cue of something else near by.
PLAIN = {
    "She took the lead pipe-laying contract.": "lˈid",
    "What does the deer eat?": "dˈʌz",
    "One does not simply walk into a forest.": "dˈʌz",
    "He ran for his life and did not look back at the wind turbine.": "wˈɪnd",
    "Updates the hash content with the given data.": "kˈɑntɛnt",
    "The file is read-only.": "ɹˈid",
    "God gave me a job and a family.": "ʤˈɑb",
    "The patterns used to find the start are here.": "jˈuzd",
    "It failed to read to the end of the file.": "ɹˈid",
}


@pytest.fixture(scope="module", params=[False, True], ids=["American", "British"])
def british(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def american() -> English:
    return English(british=False)


def cases() -> Iterator[tuple[str, str, str]]:
    """A word, what it sounds like, and a sentence with it."""
    word = phonemes = ""
    for line in SENTENCES.read_text(encoding="utf-8").splitlines():
        if heading := _HEADING.fullmatch(line):
            word, phonemes = heading["word"], heading["phonemes"].replace("ɾ", "T")
        else:
            yield word, phonemes, line


def test_most_are_said_as_they_are_meant(american: English) -> None:
    wrong, count = [], 0
    for word, phonemes, sentence in cases():
        count += 1
        if phonemes not in [token.phonemes for token in american(sentence).tokens if token.text.lower() == word]:
            wrong.append((word, phonemes, sentence))
    assert count > 950
    assert 1 - len(wrong) / count >= LEAST_RIGHT, wrong


@pytest.mark.parametrize("sentence", PLAIN)
def test_a_word_near_by_is_not_enough(american: English, sentence: str) -> None:
    assert PLAIN[sentence].strip("ˈ") in american(sentence).phonemes


def test_every_reading_can_be_said(british: bool) -> None:
    golds = English(british=british)._g2p.lexicon.golds
    said, cues = _tables()
    assert [word for word in said if not golds[word]["DEFAULT"]] == []
    unknown = [
        (word, each.sense)
        for word, senses in cues.items()
        if word != "*" and isinstance(readings := golds.get(word), dict)
        for each in senses
        if each.sense not in readings and each.sense not in ("VERB", "NOUN", "ADJ", "VBN", "JJ")
    ]
    assert unknown == []
    assert [word for word in cues if word != "*" and word not in golds] == []


def test_no_word_has_its_senses_in_two_places() -> None:
    text = Path("kokoro_server/g2p/service/data/heteronyms.toml").read_text(encoding="utf-8").split("[senses]")[1]
    groups = dict.fromkeys(re.findall(r'(?m)^"?([^".\n#]+)"?\.[A-Z]+ = ', text))
    words = [word for group in groups for word in group.split()]
    assert sorted(words) == sorted(set(words))
