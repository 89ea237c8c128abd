"""The user's own pronunciations: a file of words, read again when it changes.

The file (LEXICON_PATH) is TOML in UTF-8, with a table for each language and one, `"*"`, for all of them. `[en]` is
for both Englishes. A word is given its phonemes, between slashes, or another spelling that is read instead of it:

    ["*"]
    Kokoro = "/kˈOkəɹO/"

    [en]
    nginx = "engine x"
    "New York" = "/nˌu jˈɔɹk/"

    [ja]
    "今日" = "きょう"

An entry matches whole words only, except next to Chinese or Japanese characters, which have no gaps between words. An
entry without upper case letters matches in any case. The longest entry is tried first. An entry for a language goes
before one for all. Pronunciations in the text, web and e-mail addresses are left alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import regex

from kokoro_server import languages
from kokoro_server.engine import vocab
from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.errors import ConfigError, InvalidInput, UnknownLanguage
from kokoro_server.languages import LANGUAGES, Language
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime import files
from kokoro_server.text.markup import CJK, Part, Pronunciation, clean, describe_unknown
from kokoro_server.text.phonemized import has_sound
from kokoro_server.text.spoken import unspeakable
from kokoro_server.text.traced import Traced

log = logging.getLogger(__name__)

LexiconEntries = Mapping[str, str]

_LETTER = rf"[[\w\p{{M}}]--[{CJK}]]"
_ADDRESS = (
    r"(?:https?://|www\.)\S+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?<![\w.-])(?:[\w-]+\.)+(?:com|org|net|edu|gov|io|dev|info)\b(?:/\S*)?"
)
_WORD_START = regex.compile(rf"(?V1)(?P<address>{_ADDRESS})|(?:(?<!{_LETTER})|(?!{_LETTER}))(?=\S)")
_WORD_END = regex.compile(rf"(?V1)(?:(?<!{_LETTER})|(?!{_LETTER}))(?!'(?:t|ll|re|ve|d|m)\b)")


class LanguageLexicon:
    """The lexicon for one language. Its own entries go before those of `base`."""

    def __init__(self, entries: LexiconEntries, base: LanguageLexicon | None = None) -> None:
        self._base = base
        self._case_sensitive = {word: reading for word, reading in entries.items() if word != word.lower()}
        self._case_insensitive = {word: reading for word, reading in entries.items() if word == word.lower()}
        lengths: defaultdict[str, set[int]] = defaultdict(set)
        for word in entries:
            lengths[word[0].lower()].add(len(word))
        if base:
            for letter, known in base._lengths.items():
                lengths[letter].update(known)
        self._lengths: dict[str, list[int]] = {letter: sorted(each, reverse=True) for letter, each in lengths.items()}

    def apply(self, text: Traced) -> list[Part]:
        """`text` with its words respelled, cut at the words that the lexicon gives phonemes for."""
        parts, plain, end = list[Part](), list[Traced](), 0
        for start, stop, reading in self._matches(text.text.replace("’", "'")):
            plain.append(text.between(end, start))
            word = text.between(start, stop)
            if reading.startswith("/"):
                parts += [Traced.join(plain), Pronunciation(word, reading[1:-1])]
                plain = []
            else:
                plain.append(word.replaced(_apart(reading, text.text, start, stop)))
            end = stop
        parts.append(Traced.join((*plain, text.between(end, len(text.text)))))
        return [part for part in parts if isinstance(part, Pronunciation) or part.text]

    def readings(self, text: str) -> list[tuple[int, int, str]]:
        """The ranges of `text` that this lexicon has entries for, each with its reading."""
        return list(self._matches(text.replace("’", "'")))

    def _reading(self, word: str) -> str | None:
        own = self._case_sensitive.get(word) or self._case_insensitive.get(word.lower())
        return own or (self._base._reading(word) if self._base else None)

    def _matches(self, text: str) -> Iterator[tuple[int, int, str]]:
        end = 0
        for match in _WORD_START.finditer(text):
            start = match.start()
            if match["address"] or start < end:
                continue
            for length in self._lengths.get(text[start].lower(), ()):
                word = text[start : start + length]
                reading = self._reading(word)
                if reading and _WORD_END.match(text, start + len(word)):
                    end = start + len(word)
                    yield start, end, reading
                    break


def _apart(reading: str, text: str, start: int, end: int) -> str:
    """The words for a sign, with spaces where it touches a word: 5% is no word."""
    if any(character.isalpha() for character in text[start:end]):
        return reading
    before = " " if text[max(0, start - 1) : start].isalnum() else ""
    return f"{before}{reading}{' ' if text[end : end + 1].isalnum() else ''}"


def request_lexicon(
    entries: LexiconEntries,
    language: Language,
    base: LanguageLexicon | None,
    vocabulary: ModelVocabulary | None = None,
) -> LanguageLexicon:
    """The lexicon of a request. Raises InvalidInput for an entry that is malformed, or that `language` cannot say."""
    try:
        parsed = {
            _parse_word("lexicon", word): _parse_reading("lexicon", word, entries[word], vocabulary) for word in entries
        }
    except ValueError as error:
        raise InvalidInput(str(error), field="lexicon") from None
    for word, reading in parsed.items():
        if unspeakable.may_be_in(reading, language):
            raise InvalidInput(f"[lexicon] {word!r}: {language.name} cannot say {reading!r}", field="lexicon")
    return LanguageLexicon(parsed, base)


class Lexicon:
    """Checks the file for changes at most once in `check_every` seconds. A new version that is broken is not used."""

    def __init__(self, path: Path, check_every: float) -> None:
        self.condition = Condition(Reason.LEXICON)
        self._path = path
        self._check_every = check_every
        self._checked = time.monotonic()
        self._file_version = files.version(path)
        self._lexicons = _load(path)

    @classmethod
    def load(cls, path: Path, *, check_every: float = 1.0) -> Lexicon:
        """Raises ConfigError if the file is missing or no lexicon."""
        return cls(path, check_every)

    def now(self, language: Language) -> LanguageLexicon:
        """The entries for `language` in the version of the file that was read last."""
        return self._lexicons[language]

    async def for_language(self, language: Language) -> LanguageLexicon:
        """The entries for `language` in the present version of the file."""
        now = time.monotonic()
        if now - self._checked >= self._check_every:
            self._checked = now
            await asyncio.to_thread(self._refresh)
        return self.now(language)

    def _refresh(self) -> None:
        version = files.version(self._path)
        if version == self._file_version:
            return
        self._file_version = version
        try:
            self._lexicons = _load(self._path)
        except ConfigError as error:
            self.condition.set(f"the lexicon is broken, and its last good version stays in use: {error}")
        else:
            self.condition.clear()


def _load(path: Path) -> dict[Language, LanguageLexicon]:
    try:
        tables = _parse_tables(tomllib.loads(path.read_bytes().decode("utf-8-sig")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"LEXICON_PATH={path}: {getattr(error, 'strerror', None) or error}") from error
    lexicons = {language: LanguageLexicon(_entries(tables, language)) for language in LANGUAGES}
    log.info("lexicon loaded path=%s words=%d", path, sum(len(table) for table in tables.values()))
    return lexicons


def _entries(tables: Mapping[str, LexiconEntries], language: Language) -> LexiconEntries:
    """The entries of all tables that apply to a language. A particular table goes before a more general one."""
    names = ("*", "en", language.code) if language in languages.ENGLISH else ("*", language.code)
    return {word: reading for name in names for word, reading in tables.get(name, {}).items()}


def _parse_tables(content: Mapping[str, object]) -> dict[str, LexiconEntries]:
    tables: dict[str, LexiconEntries] = {}
    for name, table in content.items():
        if not isinstance(table, dict):
            raise ValueError(f'{name!r} is outside of a table; words belong below a language, such as [en], or ["*"]')
        words = {_parse_word(name, word): _parse_reading(name, word, reading) for word, reading in table.items()}
        code = _table_name(name)
        tables[code] = {**tables.get(code, {}), **words}
    return tables


def _table_name(name: str) -> str:
    if name in ("*", "en"):
        return name
    try:
        return languages.parse(name).code
    except UnknownLanguage as error:
        raise ValueError(f"[{name}]: {error.message}, en for both Englishes, or * for all") from None


def _parse_word(table: str, word: str) -> str:
    cleaned = clean(Traced.of(word)).text.strip().replace("’", "'")
    if not cleaned:
        raise ValueError(f"[{table}] has an entry without a word")
    return cleaned


def _parse_reading(table: str, word: str, reading: object, vocabulary: ModelVocabulary | None = None) -> str:
    if not isinstance(reading, str) or not reading.strip():
        raise ValueError(f'[{table}] {word!r}: needs "/phonemes/" or another spelling, in quotes')
    if not (reading.startswith("/") and reading.endswith("/") and len(reading) > 1):
        if not any(character.isalnum() for character in reading):
            raise ValueError(f"[{table}] {word!r}: {reading!r} has no letter that could be said")
        return clean(Traced.of(reading)).text.strip()
    phonemes = reading[1:-1]
    known = vocabulary or vocab.built_in()
    if known.unknown(phonemes):
        raise ValueError(f"[{table}] {word!r}: {describe_unknown(phonemes, known)}")
    if not has_sound(phonemes) or set("()") & set(phonemes):
        raise ValueError(f"[{table}] {word!r}: {reading!r} has no sound, or parentheses")
    return reading
