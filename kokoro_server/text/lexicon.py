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

A word matches whole words only, except next to Chinese or Japanese characters, which have no gaps between words; in
any case, if it has no upper case letters itself; and the longest word first. What is written for a language goes
before what is written for all. Pronunciations in the text, web and e-mail addresses are left alone.
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

from kokoro_server.engine import vocab
from kokoro_server.errors import ConfigError, UnknownLanguage
from kokoro_server.g2p import languages
from kokoro_server.g2p.languages import LANGUAGES, Language
from kokoro_server.text.markup import CJK, Given, Part, clean, named_unknown
from kokoro_server.text.spoken import is_speech
from kokoro_server.text.traced import Traced

log = logging.getLogger(__name__)

Table = Mapping[str, str]

_ENGLISH = (languages.EN_US, languages.EN_GB)
_LETTER = rf"[[\w\p{{M}}]--[{CJK}]]"
_ADDRESS = (
    r"(?:https?://|www\.)\S+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?<![\w.-])(?:[\w-]+\.)+(?:com|org|net|edu|gov|io|dev|info)\b(?:/\S*)?"
)
_START = regex.compile(rf"(?V1)(?P<address>{_ADDRESS})|(?:(?<!{_LETTER})|(?!{_LETTER}))(?=\S)")
_END = regex.compile(rf"(?V1)(?:(?<!{_LETTER})|(?!{_LETTER}))(?!'(?:t|ll|re|ve|d|m)\b)")


class Rules:
    """The lexicon for one language."""

    def __init__(self, entries: Table) -> None:
        self._exact = {word: reading for word, reading in entries.items() if word != word.lower()}
        self._any_case = {word: reading for word, reading in entries.items() if word == word.lower()}
        lengths: defaultdict[str, set[int]] = defaultdict(set)
        for word in entries:
            lengths[word[0].lower()].add(len(word))
        self._lengths = {letter: sorted(found, reverse=True) for letter, found in lengths.items()}

    def apply(self, text: Traced) -> list[Part]:
        """`text` with its words respelled, and between its parts the words whose phonemes are given."""
        parts, plain, end = list[Part](), list[Traced](), 0
        for start, stop, reading in self._matches(text.text.replace("’", "'")):
            plain.append(text.between(end, start))
            word = text.between(start, stop)
            if reading.startswith("/"):
                parts += [Traced.join(plain), Given(word, reading[1:-1])]
                plain = []
            else:
                plain.append(word.replaced(reading))
            end = stop
        parts.append(Traced.join((*plain, text.between(end, len(text.text)))))
        return [part for part in parts if isinstance(part, Given) or part.text]

    def _matches(self, text: str) -> Iterator[tuple[int, int, str]]:
        end = 0
        for match in _START.finditer(text):
            start = match.start()
            if match["address"] or start < end:
                continue
            for length in self._lengths.get(text[start].lower(), ()):
                word = text[start : start + length]
                reading = self._exact.get(word) or self._any_case.get(word.lower())
                if reading and _END.match(text, start + len(word)):
                    end = start + len(word)
                    yield start, end, reading
                    break


class Lexicon:
    """Looks at the file at most once in `check_every` seconds. A new version that is broken is not used."""

    def __init__(self, path: Path, check_every: float) -> None:
        self._path = path
        self._check_every = check_every
        self._checked = time.monotonic()
        self._stamp = _stamp(path)
        self._rules = _load(path)

    @classmethod
    def load(cls, path: Path, *, check_every: float = 1.0) -> Lexicon:
        """Raises ConfigError if the file is not there or not a lexicon."""
        return cls(path, check_every)

    async def rules(self, language: Language) -> Rules:
        """What the file says now."""
        now = time.monotonic()
        if now - self._checked >= self._check_every:
            self._checked = now
            await asyncio.to_thread(self._refresh)
        return self._rules[language]

    def _refresh(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._rules = _load(self._path)
        except ConfigError as error:
            log.error("lexicon is broken, the last good version stays in use error=%s", error)


def _stamp(path: Path) -> tuple[int, ...]:
    """Another one whenever the file has changed."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _load(path: Path) -> dict[Language, Rules]:
    try:
        tables = _tables(tomllib.loads(path.read_bytes().decode("utf-8-sig")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"LEXICON_PATH={path}: {error}") from error
    rules = {
        language: Rules({word: reading for name in _names(language) for word, reading in tables.get(name, {}).items()})
        for language in LANGUAGES
    }
    log.info("lexicon loaded path=%s words=%d", path, sum(len(table) for table in tables.values()))
    return rules


def _names(language: Language) -> tuple[str, ...]:
    """The tables that hold for a language, the least particular first."""
    return ("*", "en", language.code) if language in _ENGLISH else ("*", language.code)


def _tables(content: Mapping[str, object]) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for name, table in content.items():
        if not isinstance(table, dict):
            raise ValueError(f'{name!r} is outside of a table; words belong below a language, such as [en], or ["*"]')
        words = {_word(name, word): _reading(name, word, reading) for word, reading in table.items()}
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


def _word(table: str, word: str) -> str:
    cleaned = clean(Traced.of(word)).text.strip().replace("’", "'")
    if not cleaned:
        raise ValueError(f"[{table}] has an entry without a word")
    return cleaned


def _reading(table: str, word: str, reading: object) -> str:
    if not isinstance(reading, str) or not reading.strip():
        raise ValueError(f'[{table}] {word!r}: needs "/phonemes/" or another spelling, in quotes')
    if not (reading.startswith("/") and reading.endswith("/") and len(reading) > 1):
        return clean(Traced.of(reading)).text.strip()
    phonemes = reading[1:-1]
    if vocab.unknown(phonemes):
        raise ValueError(f"[{table}] {word!r}: {named_unknown(phonemes)}")
    if not is_speech(phonemes) or set("()") & set(phonemes):
        raise ValueError(f"[{table}] {word!r}: {reading!r} has no sound, or parentheses")
    return reading
