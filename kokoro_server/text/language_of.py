"""The language that a text is plainly written in: by its script, else by frequent words, endings and letters."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unicodedata import normalize

from kokoro_server import languages
from kokoro_server.languages import Language
from kokoro_server.runtime.json import JsonObject

LOOKED_AT = 2_000  # characters: more of a text says nothing new
PLAIN = 4  # points of a word that only one language has
BORROWED = 2  # points of such a word that names and loans have, too; all other evidence is one point
ENOUGH = 5  # points, if no word is plain
MARGIN = 1  # point by which the best language leads
ENDING_SIZES = (5, 4, 3, 2)  # letters
DEVANAGARI_WORD = 3  # as much evidence as three Han characters

_LATIN = {"en": languages.EN_US, "es": languages.ES, "fr": languages.FR, "it": languages.IT, "pt": languages.PT_BR}
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿŒœ]+'?")
_KANA = re.compile(r"[ぁ-ゖァ-ヺｦ-ﾝ]")
_HAN = re.compile(r"[々\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_DEVANAGARI = re.compile(r"[\u0900-\u097f]+")
_OTHER_WORD = re.compile(r"[^\W\d_A-Za-zÀ-ÖØ-öø-ÿŒœªº]+")

Points = tuple[tuple[str, int], ...]  # by language


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Points by word, by ending and by letter; and the Han characters of one language."""

    words: Mapping[str, Points]
    plain_words: Mapping[str, Points]  # as they are typed without accents
    phrases: Mapping[str, re.Pattern[str]]  # by language
    borrowed: frozenset[str]
    endings: Mapping[str, Points]
    letters: Mapping[str, Points]
    ja: frozenset[str]
    zh: frozenset[str]


def language_of(text: str, likely: Language | None = None) -> Language | None:
    """The language of a text, or None if it is not plain. Han characters that two languages share are `likely`'s."""
    text = normalize("NFC", text[:LOOKED_AT]).replace("’", "'")
    words = _LATIN_WORD.findall(text)
    found, points = _best_latin(text, words)
    if text.isascii():
        return found
    kana, han = len(_KANA.findall(text)), _HAN.findall(text)
    unspaced, hindi = kana + len(han), DEVANAGARI_WORD * len(_DEVANAGARI.findall(text))
    latin = len(words) + points
    if (unspaced or hindi) and 3 * max(unspaced, hindi) >= latin:
        return languages.HI if hindi > unspaced else _of_han(kana, han, likely)
    other = max(4 * unspaced, 6 * len(_OTHER_WORD.findall(text)))
    return found if other <= latin else None


def _of_han(kana: int, han: list[str], likely: Language | None) -> Language | None:
    table = _evidence()
    chinese, japanese = sum(each in table.zh for each in han), sum(each in table.ja for each in han)
    if kana + japanese != chinese:
        return languages.JA if kana + japanese > chinese else languages.ZH
    return None if likely is languages.JA else languages.ZH


def _best_latin(text: str, words: list[str]) -> tuple[Language | None, int]:
    """The language that leads clearly, if any, and the points of the first."""
    if not words:
        return None, 0
    table, scores, plain = _evidence(), dict.fromkeys(_LATIN, 0), set[str]()
    known = table.plain_words if text.isascii() else table.words
    for index, written in enumerate(words):
        word = written.lower()
        evidence = known.get(word) or known.get(word.rstrip("'"))
        if evidence is None:
            evidence = _spelling(word, table)
        elif word in table.borrowed and written[0].isupper() and (index or _is_capitalized(words[1:2])):
            continue  # a part of a name, as in "El Paso"
        for language, points in evidence:
            scores[language] += points
            if points == PLAIN:
                plain.add(language)
    marked = [language for language, phrases in table.phrases.items() if phrases.search(text)]
    for language in ("es", *marked) if "¿" in text or "¡" in text else marked:
        scores[language] += PLAIN
        plain.add(language)
    best, second = sorted(scores, key=scores.__getitem__, reverse=True)[:2]
    most, next_most = scores[best], scores[second]
    clear = most >= next_most + MARGIN and most >= 1.15 * next_most and most >= 0.4 * len(words)
    if best != "en":  # English texts have names and titles of other languages
        clear = clear and most >= 1.4 * scores["en"] + 2 * MARGIN
    return (_LATIN[best] if clear and (best in plain or most >= ENOUGH) else None), most


def _is_capitalized(words: list[str]) -> bool:
    return any(word[0].isupper() for word in words)


def _spelling(word: str, table: _Evidence) -> Points:
    """The evidence of a word's longest known ending, and of its letters."""
    ends = (word[-size:] for size in ENDING_SIZES if size + 1 < len(word))
    points = next((table.endings[end] for end in ends if end in table.endings), ())
    if word.isascii():
        return points
    return points + tuple({each for letter in word for each in table.letters.get(letter, ())})


@cache
def _evidence() -> _Evidence:
    path = Path(__file__).with_name("data") / "language_words.toml"
    tables: JsonObject = tomllib.loads(path.read_text(encoding="utf-8"))
    borrowed = frozenset(tables["borrowed"].split())
    lists: dict[str, list[str]] = {code: tables[code]["words"].split() for code in _LATIN}
    words = _codes_by_item(lists)
    plain_words = _codes_by_item({code: [*each, *map(_without_accents, each)] for code, each in lists.items()})
    typed = frozenset(plain_words) - frozenset(words)  # a name may be such a word: Irma, Mae
    borrowed |= frozenset(map(_without_accents, borrowed))
    return _Evidence(
        words={word: _points(codes, BORROWED if word in borrowed else PLAIN) for word, codes in words.items()},
        plain_words={
            word: _points(codes, BORROWED if word in borrowed else PLAIN) for word, codes in plain_words.items()
        },
        phrases={code: _any_phrase(tables[code]["phrases"]) for code in _LATIN if tables[code]["phrases"]},
        borrowed=borrowed | typed,
        endings=_weak({code: tables[code]["endings"].split() for code in _LATIN}),
        letters=_weak({code: tables[code]["letters"] for code in _LATIN}),
        ja=frozenset(tables["han"]["ja"]),
        zh=frozenset(tables["han"]["zh"]),
    )


def _any_phrase(phrases: list[str]) -> re.Pattern[str]:
    """One of the phrases, in small letters or with one capital."""
    return re.compile("|".join(rf"\b[{each[0]}{each[0].upper()}]{each[1:]}\b" for each in phrases))


def _without_accents(word: str) -> str:
    return "".join(each for each in normalize("NFD", word.replace("œ", "oe")) if each.isascii())


def _codes_by_item(items: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for code, each in items.items():
        for item in dict.fromkeys(each):
            found.setdefault(item, []).append(code)
    return found


def _weak(items: Mapping[str, Iterable[str]]) -> dict[str, Points]:
    return {item: _points(codes, 1) for item, codes in _codes_by_item(items).items()}


def _points(codes: list[str], alone: int) -> Points:
    """One point for each language, or `alone` for the only one."""
    return tuple((code, alone if len(codes) == 1 else 1) for code in codes)
