"""What makes English faster changes nothing of what is said."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from misaki import en  # type: ignore[import-untyped]

from benchmarks.serving.prose import sentence
from kokoro_server.g2p.service import english_tagger
from kokoro_server.g2p.service.english import English, _spacy_model
from kokoro_server.g2p.service.english_tagger import Tagger, tags_of
from kokoro_server.g2p.service.light_misaki import LightToken

pytestmark = pytest.mark.filterwarnings("ignore:open_text is deprecated:DeprecationWarning")  # misaki's

SENTENCES = [
    *(sentence(number) for number in range(60)),
    "Read what I read: they live live, and the dove dove.",
    "$5.50, 2×3, 40–60%, McDonald's, e-mail@x.org — O'Brien, Ph.D.!",
    "THE QUICK brown FOX; 'tis a rock'n'roll shoooow...",
    "naïve café, Zürich, 北京, Привет",
    "  two  spaces\n\nand\ttabs  ",
    "?",
    "a",
]


@pytest.fixture(scope="module")
def nlp() -> Any:
    return _spacy_model()[0]


def test_tags_are_spacys(nlp: Any) -> None:
    tags = tags_of(nlp)
    assert isinstance(getattr(tags, "__self__", None), Tagger)
    for text in SENTENCES:
        assert tags(nlp.make_doc(text)) == [token.tag_ for token in nlp(text)], text
    assert tags(nlp.make_doc("")) == []


def test_tags_are_the_same_when_words_were_forgotten(nlp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(english_tagger, "_MOST_WORDS", 20)
    tagger = Tagger(nlp)
    for text in SENTENCES:
        assert tagger.tags(nlp.make_doc(text)) == [token.tag_ for token in nlp(text)], text
        assert len(tagger._words) <= max(20, len(nlp.make_doc(text)))


def test_a_model_of_another_kind_tags_by_itself(nlp: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Other:
        make_doc, __call__ = nlp.make_doc, staticmethod(nlp)

        def get_pipe(self, name: str) -> Any:
            if name == "tok2vec":
                raise KeyError(name)
            return nlp.get_pipe(name)

    document = nlp.make_doc(SENTENCES[0])
    assert tags_of(Other())(document) == [token.tag_ for token in nlp(SENTENCES[0])]
    assert "built in an unknown way" in caplog.text


def test_a_model_that_tags_otherwise_is_believed(nlp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tagger, "tags", lambda _self, document: ["XX"] * len(document))
    assert tags_of(nlp)(nlp.make_doc("I run.")) == [token.tag_ for token in nlp("I run.")]


def test_phonemes_are_those_of_misakis_own_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    english = English(british=False)
    light = [english(text) for text in SENTENCES]
    own = LightToken.__mro__[1]
    assert en.MToken is LightToken
    monkeypatch.setattr(en, "MToken", own)
    monkeypatch.setattr(en, "replace", dataclasses.replace)
    monkeypatch.setattr(en, "subtokenize", en.subtokenize.__wrapped__)
    monkeypatch.setattr("kokoro_server.g2p.service.english.make_light", lambda: None)
    english = English(british=False)
    assert [english(text) for text in SENTENCES] == light


def test_espeak_is_asked_for_a_word_once(monkeypatch: pytest.MonkeyPatch) -> None:
    english = English(british=True)
    fallback = english._g2p.fallback
    asked: list[str] = []
    own = fallback.backend.phonemize
    monkeypatch.setattr(fallback.backend, "phonemize", lambda words: asked.append(*words) or own(words))
    first = fallback(SimpleNamespace(text="Zyxvoth"))
    assert first[0]
    assert fallback(SimpleNamespace(text="Zyxvoth")) == first
    assert asked == ["Zyxvoth"]
