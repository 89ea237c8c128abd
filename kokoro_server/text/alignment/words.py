"""Words aligned with the tokens that G2P returns; and English sentences, sent to G2P whole, but for very long ones."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kokoro_server.g2p.result import G2PResult, Token
from kokoro_server.text.markup import SPEAKABLE, Part, Pronunciation
from kokoro_server.text.phonemized import PhonemizedSentence, PhonemizedWord, has_sound
from kokoro_server.text.splitter import TextSpan, split_long
from kokoro_server.text.traced import Traced

_MAX_TEXT = 2_000  # characters sent to G2P at once: a sentence may be all signs, each of which is said in words
_MAX_SKIPPED = 16  # characters that G2P may have left out between two tokens
_BEFORE_LINK = re.compile(r"(?:\A|[\s—])[(“‘\"']*\Z")
_AFTER_LINK = re.compile(r"[.,;:!?…)”’\"']*(?:[\s—]|\Z)|['’]s\b|-\w")
_MARKS = ' ;:,.!?—…"()“”'
_PLAIN_QUOTES = str.maketrans("‘’“”", "''\"\"")


class WordAlignedSentence:
    """Pronunciations stay in the text that G2P gets, in misaki's own notation: so it knows what is around them."""

    def __init__(self, span: TextSpan, parts: Sequence[Part]) -> None:
        self._span = span
        sent, read, position = "", list[Traced](), 0
        self._pronunciations: dict[tuple[int, int], str] = {}  # phonemes by their range in the text that misaki reads
        for part in parts:
            word = part.word if isinstance(part, Pronunciation) else part
            if _needs_space(sent, part):
                word = Traced.join((Traced(" ", word.starts[:1], word.starts[:1]), word))
                sent += " "
            read.append(word)
            position += len(word.text)
            if isinstance(part, Pronunciation):
                self._pronunciations[position - len(part.word.text), position] = part.phonemes
                sent += f"[{part.word.text}](/{part.phonemes}/)"
            else:
                sent += part.text
        self.texts = tuple(sent[start:end] for start, end in split_long(sent, 0, len(sent), _MAX_TEXT))
        self._parts = read

    @cached_property
    def _text(self) -> Traced:
        """The text that misaki reads: without the notation of pronunciations."""
        return Traced.join(self._parts)

    def with_phonemes(self, results: Sequence[G2PResult]) -> PhonemizedSentence:
        """The sentence with the phonemes of its texts."""
        tokens = tuple(token for result in results for token in result.tokens or ())
        whole = "".join(result.phonemes for result in results)
        if "".join(token.phonemes + token.whitespace for token in tokens) != whole:
            phonemes = whole.strip()
            return PhonemizedSentence(self._span, phonemes, lambda: as_phrase(self._text, phonemes))
        phonemes = self._align(tokens)[0] if self._pronunciations else _join_phonemes(tokens)
        return PhonemizedSentence(self._span, phonemes, lambda: self._words(tokens, phonemes))

    def _words(self, tokens: Sequence[Token], phonemes: str) -> tuple[PhonemizedWord, ...]:
        drafts = _cover(self._text.text, _attach_unlocated(self._align(tokens)[1]))
        return tuple(_merge_drafts(self._text, drafts)) or as_phrase(self._text, phonemes)

    def _align(self, tokens: Sequence[Token]) -> tuple[str, list[_Draft]]:
        phonemes, drafts = "", list[_Draft]()
        for token, located in zip(tokens, _locate_tokens(tokens, self._text.text), strict=True):
            sound = self._pronunciations.get(located, token.phonemes).strip()
            if has_sound(sound):
                drafts.append(_Draft(*located, len(phonemes), len(phonemes) + len(sound), token.read_as))
            phonemes = _append_phonemes(phonemes, sound, token)
        return phonemes.rstrip(), drafts


def token_words(text: Traced, result: G2PResult) -> tuple[PhonemizedWord, ...]:
    """The words of `text`, between which a piece may end; none where the tokens do not make up the phonemes."""
    tokens, drafts, place = result.tokens or (), list[_Draft](), 0
    for token, located in zip(tokens, _locate_tokens(tokens, text.text), strict=True):
        if has_sound(token.phonemes):
            drafts.append(_Draft(*located, place, place + len(token.phonemes), token.read_as))
        place += len(token.phonemes + token.whitespace)
    if "".join(token.phonemes + token.whitespace for token in tokens) != result.phonemes:
        return ()
    words = _merge_drafts(text, _cover(text.text, _attach_unlocated(drafts)))
    return tuple(replace(word, breakable=True) for word in words)


def as_phrase(text: Traced, phonemes: str, *, is_word: bool = False) -> tuple[PhonemizedWord, ...]:
    """All of `text` as one phrase, or one word if `is_word`, without the marks around it; none if it has no sound."""
    if not has_sound(phonemes):
        return ()
    spoken = [i for i, character in enumerate(text.text) if SPEAKABLE.match(character)] or [0, len(text.text) - 1]
    phoneme_start = len(phonemes) - len(phonemes.lstrip(_MARKS))
    phoneme_end = len(phonemes.rstrip(_MARKS))
    return (PhonemizedWord(*text.origin(spoken[0], spoken[-1] + 1), phoneme_start, phoneme_end, phrase=not is_word),)


def _join_phonemes(tokens: Sequence[Token]) -> str:
    """The phonemes of a sentence in which the user has given no pronunciation."""
    phonemes = ""
    for token in tokens:
        phonemes = _append_phonemes(phonemes, token.phonemes.strip(), token)
    return phonemes.rstrip()


def _append_phonemes(phonemes: str, sound: str, token: Token) -> str:
    phonemes += sound
    return phonemes + " " if token.whitespace and phonemes and phonemes[-1] != " " else phonemes


@dataclass(slots=True)
class _Draft:
    """A word in the making: its range in the text that misaki reads, and its range in the phonemes."""

    start: int
    end: int
    phoneme_start: int
    phoneme_end: int
    read_as: str


def _needs_space(sent: str, part: Part) -> bool:
    """Whether a pronunciation touches its neighbour: misaki may then give its phonemes to some other word."""
    if isinstance(part, Pronunciation):
        return not _BEFORE_LINK.search(sent[-8:])
    return sent.endswith("/)") and not _AFTER_LINK.match(part.text)


def _locate_tokens(tokens: Sequence[Token], text: str) -> Iterator[tuple[int, int]]:
    """The range of each token in `text`. It is empty for a token that cannot be found."""
    text, cursor = text.translate(_PLAIN_QUOTES), 0
    for token in tokens:
        wanted = token.text.strip().translate(_PLAIN_QUOTES)
        start, cursor = _locate(wanted, text, cursor) or (cursor, cursor)
        yield start, cursor


def _locate(wanted: str, text: str, low: int) -> tuple[int, int] | None:
    start = text.find(wanted, low, low + len(wanted) + _MAX_SKIPPED)
    if start >= 0:
        return start, start + len(wanted)
    positions, position = list[int](), low - 1
    for character in wanted:
        position = text.find(character, position + 1, position + 4)  # misaki leaves out an apostrophe here and there
        if position < 0:
            return None
        positions.append(position)
    return positions[0], positions[-1] + 1


def _attach_unlocated(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Gives sounds without characters to the word before them, or else to the one after."""
    attached: list[_Draft] = []
    first: int | None = None
    for draft in drafts:
        if draft.start < draft.end:
            start = draft.phoneme_start if first is None else first
            attached.append(replace(draft, phoneme_start=start))
            first = None
        elif attached:
            attached[-1].phoneme_end = draft.phoneme_end
        elif first is None:
            first = draft.phoneme_start
    return attached


def _cover(text: str, drafts: list[_Draft]) -> list[_Draft]:
    """Gives characters without a sound, such as the sign in $5, to the word that they touch, or else the one before."""
    ends = [0, *(draft.end for draft in drafts)]
    for index, low in enumerate(ends):
        before = drafts[index - 1] if index else None
        after = drafts[index] if index < len(drafts) else None
        high = after.start if after else len(text)
        touching = text.rfind(" ", low, high) + 1 or low
        for position in range(low, high):
            if _belongs_to_word(text[position]):
                if after and (position >= touching or before is None):
                    after.start = position
                    break
                if before:
                    before.end = position + 1
    return drafts


def _belongs_to_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) == "Sc"


def _merge_drafts(text: Traced, drafts: Sequence[_Draft]) -> Iterator[PhonemizedWord]:
    """The words of the original. G2P may read a respelled word as several, and so "Kokoro's" if it is in a lexicon."""
    word: PhonemizedWord | None = None
    end = 0
    for draft in drafts:
        start, stop = text.origin(draft.start, draft.end)
        suffix = draft.start <= end + 1 and text.text[end] in "'’-"
        if word and (start < word.end or (suffix and start <= word.end + 1)):
            read_as = word.read_as or draft.read_as
            word = replace(word, end=max(stop, word.end), phoneme_end=draft.phoneme_end, read_as=read_as)
        else:
            if word:
                yield word
            word = PhonemizedWord(start, stop, draft.phoneme_start, draft.phoneme_end, read_as=draft.read_as)
        end = draft.end
    if word:
        yield word
