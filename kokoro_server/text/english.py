"""English sentences: sent to G2P whole, and the words found again in the tokens that come back."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kokoro_server.g2p.phonemes import Phonemes, Token
from kokoro_server.text.markup import Given, Part
from kokoro_server.text.phrases import phrase
from kokoro_server.text.splitter import Span
from kokoro_server.text.spoken import Spoken, Word, is_speech
from kokoro_server.text.traced import Traced

_SLACK = 16  # characters that G2P may have left out between two tokens
_OPENING = re.compile(r"(?:\A|[\s—])[(“‘\"']*\Z")
_CLOSING = re.compile(r"[.,;:!?…)”’\"']*(?:[\s—]|\Z)|['’]s\b|-\w")
_PLAIN_QUOTES = str.maketrans("‘’“”", "''\"\"")


class EnglishSentence:
    """Pronunciations stay in the text that G2P gets, in misaki's own notation: so it knows what is before and after."""

    def __init__(self, span: Span, parts: Sequence[Part]) -> None:
        self._span = span
        sent, heard, place = "", list[Traced](), 0
        self._given: dict[tuple[int, int], str] = {}  # by their place in what misaki reads
        for part in parts:
            word = part.word if isinstance(part, Given) else part
            if _is_glued(sent, part):
                word = Traced.join((Traced(" ", word.starts[:1], word.starts[:1]), word))
                sent += " "
            heard.append(word)
            place += len(word.text)
            if isinstance(part, Given):
                self._given[place - len(part.word.text), place] = part.phonemes
                sent += f"[{part.word.text}](/{part.phonemes}/)"
            else:
                sent += part.text
        self.texts = (sent,)
        self._parts = heard

    @cached_property
    def _heard(self) -> Traced:
        return Traced.join(self._parts)

    def spoken(self, answers: Sequence[Phonemes]) -> Spoken:
        """The sentence with the phonemes of its only text."""
        answer = answers[0]
        tokens = answer.tokens or ()
        if "".join(token.phonemes + token.whitespace for token in tokens) != answer.phonemes:
            phonemes = answer.phonemes.strip()
            return Spoken(self._span, phonemes, lambda: phrase(self._heard, phonemes))
        phonemes = self._hear(tokens)[0] if self._given else _sound(tokens)
        return Spoken(self._span, phonemes, lambda: self._words(tokens, phonemes))

    def _words(self, tokens: Sequence[Token], phonemes: str) -> tuple[Word, ...]:
        drafts = _cover(self._heard.text, _settled(self._hear(tokens)[1]))
        return tuple(_merged(self._heard, drafts)) or phrase(self._heard, phonemes)

    def _hear(self, tokens: Sequence[Token]) -> tuple[str, list[_Draft]]:
        phonemes, drafts = "", list[_Draft]()
        for token, place in zip(tokens, _places(tokens, self._heard.text), strict=True):
            sound = self._given.get(place, token.phonemes).strip()
            if is_speech(sound):
                drafts.append(_Draft(*place, len(phonemes), len(phonemes) + len(sound)))
            phonemes = _joined(phonemes, sound, token)
        return phonemes.rstrip(), drafts


def _sound(tokens: Sequence[Token]) -> str:
    """The phonemes of a sentence in which no pronunciation is given."""
    phonemes = ""
    for token in tokens:
        phonemes = _joined(phonemes, token.phonemes.strip(), token)
    return phonemes.rstrip()


def _joined(phonemes: str, sound: str, token: Token) -> str:
    phonemes += sound
    return phonemes + " " if token.whitespace and phonemes and phonemes[-1] != " " else phonemes


@dataclass(slots=True)
class _Draft:
    """A word in the making: its place in the text that G2P heard, and in the phonemes."""

    start: int
    end: int
    first: int
    last: int


def _is_glued(sent: str, part: Part) -> bool:
    """Whether a pronunciation touches what misaki may take for a part of the word: it then goes to some other word."""
    if isinstance(part, Given):
        return not _OPENING.search(sent[-8:])
    return sent.endswith("/)") and not _CLOSING.match(part.text)


def _places(tokens: Sequence[Token], text: str) -> Iterator[tuple[int, int]]:
    """Where in `text` each token stands. One that cannot be found has no characters."""
    text, cursor = text.translate(_PLAIN_QUOTES), 0
    for token in tokens:
        wanted = token.text.strip().translate(_PLAIN_QUOTES)
        start, cursor = _found(wanted, text, cursor) or (cursor, cursor)
        yield start, cursor


def _found(wanted: str, text: str, low: int) -> tuple[int, int] | None:
    start = text.find(wanted, low, low + len(wanted) + _SLACK)
    if start >= 0:
        return start, start + len(wanted)
    places, place = list[int](), low - 1
    for character in wanted:
        place = text.find(character, place + 1, place + 4)  # misaki leaves out an apostrophe here and there
        if place < 0:
            return None
        places.append(place)
    return places[0], places[-1] + 1


def _settled(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Sounds without characters go to the word before them, or else to the one after."""
    settled: list[_Draft] = []
    first: int | None = None
    for draft in drafts:
        if draft.start < draft.end:
            settled.append(_Draft(draft.start, draft.end, draft.first if first is None else first, draft.last))
            first = None
        elif settled:
            settled[-1].last = draft.last
        elif first is None:
            first = draft.first
    return settled


def _cover(text: str, drafts: list[_Draft]) -> list[_Draft]:
    """Characters without a sound, such as the sign in $5, go to the word that they touch, or else to the one before."""
    ends = [0, *(draft.end for draft in drafts)]
    for index, low in enumerate(ends):
        before = drafts[index - 1] if index else None
        after = drafts[index] if index < len(drafts) else None
        high = after.start if after else len(text)
        touching = text.rfind(" ", low, high) + 1 or low
        for place in range(low, high):
            if _is_solid(text[place]):
                if after and (place >= touching or before is None):
                    after.start = place
                    break
                if before:
                    before.end = place + 1
    return drafts


def _is_solid(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) == "Sc"


def _merged(heard: Traced, drafts: Sequence[_Draft]) -> Iterator[Word]:
    """The words in the original. A respelled word may be heard as several, and so may "Kokoro's" with a lexicon."""
    word: Word | None = None
    end = 0
    for draft in drafts:
        start, stop = heard.origin(draft.start, draft.end)
        suffix = draft.start <= end + 1 and heard.text[end] in "'’-"
        if word and (start < word.end or (suffix and start <= word.end + 1)):
            word = Word(word.start, max(stop, word.end), word.first, draft.last)
        else:
            if word:
                yield word
            word = Word(start, stop, draft.first, draft.last)
        end = draft.end
    if word:
        yield word
