"""Names, brands, places and loan words that misaki and espeak say wrongly, and how they are said.

The table, `data/names.tsv`, has one a line: the name, its American phonemes, and its British ones where the rules here
do not make them. A name of several words has as many groups of phonemes. A capital letter is part of the name: `Nice`
says nothing about `nice`. A name holds for the same letters without accents, too.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from kokoro_server.g2p.service.latin_letters import without_accents

_VOWEL = "AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻᵊ"
_SPOKEN_R = rf"(?=[ˈˌ]?[{_VOWEL}])"
_BRITISH_R = (
    (re.compile(rf"([ɑɔɜ])ɹ{_SPOKEN_R}"), r"\1ːɹ"),
    (re.compile(r"([ɑɔɜ])ɹ"), r"\1ː"),
    (re.compile(rf"ɹ{_SPOKEN_R}"), "ʀ"),  # kept
    (re.compile(r"ɛɹ"), "ɛː"),
    (re.compile(r"[iɪ]ɹ"), "ɪə"),
    (re.compile(r"[uʊ]ɹ"), "ʊə"),
    (re.compile(r"([IW])ɹ"), r"\1ə"),
    (re.compile(r"ɹ"), ""),
    (re.compile(r"ʀ"), "ɹ"),
)
_BRITISH_VOWELS = str.maketrans({"O": "Q", "æ": "a", "ᵻ": "ɪ", "ɾ": "t"})
# Without their accents, these are English, or are said as in English.
_ENGLISH = frozenset(
    "Agnes Ake Alegria Amalia Andres Angela Antonio Asa Avila Banas Barragan Bien Blazek Bolano Boll Brac Bui "
    "Bures Cantu Castaneda Cecile Cha Chavez Clemence Cleo Conde Constanta Cordova Cu Dai Dao Dario Deleon Diem "
    "Doner Dorr Dube Duc Duran Eder Edith Elias Elisabeth Elise Eloise Emile Eric Esterhazy Eugenie Eusebio "
    "Farias Faure Gagne Galati Galvan Garcia Genevieve Gerard Giessen Gisele Goi Gon Gote Gotz Hai Hebert Helene "
    "Hermes Hoa Honore Hue Ibrahim Ines Itza Jerome Jonas Josue Julich Katerina Kis Klos Koc Kolar Kosinski "
    "Krasinski Kuhn Kus Ky Lazaro Le Lea Lebron Leger Leon Leonie Leos Lois Lukas Ly Macias Macon Manti Marias "
    "Masse Matias Mejia Menard Mendez Merida Michal Micheal Millan Mobius Moise Molnar Montano Negron Ngo Nicolas "
    "Nis Nordstrom Noren Nunez Paco Pena Pepin Perez Phong Polak Polya Quan Ramirez Ramon Rendon Renteria Riona "
    "Riza Rohm Romo Rosinski Ruben Saldivar Sanchez Santamaria Savic Schafer Schaffer Schroder Schutz Seguin "
    "Soder Solis Stefan Stepan Store Sule Sundstrom Szabo Teran Tet Theo Theodore Therese Theriault Tomas Toth "
    "Tri Trinh Tung Turo Valdes Valentin Valerie Valery Vallee Velez Vera Vezina Vlasic Voller Wisniewski Wozniak "
    "Wurth Zielinski Zurek".split()
)
_LONG_O = re.compile(r"(?i)a[uwl]")
_CLOSED = re.compile(rf"[^{_VOWEL}ˈˌːɹwj]{{2}}")


class NameTable(NamedTuple):
    """Phonemes by name, and those of names of several words by their first word. `own` are as the table has them."""

    words: dict[str, str]
    own: frozenset[str]
    phrases: dict[str, list[tuple[list[str], list[str]]]]


@cache
def load_names(british: bool) -> NameTable:
    own, folded, phrases = dict[str, str](), dict[str, str](), dict[str, list[tuple[list[str], list[str]]]]()
    for line in (files(__package__) / "data" / "names.tsv").read_text(encoding="utf-8").splitlines():
        name, american, *rest = line.split("\t")
        sounds = (rest[0] if rest else to_british(name, american)) if british else american
        plain = without_accents(name)
        if " " in name:
            for words in ([first, *plain.split(" ")[1:]] for first in _at_either_place(plain.split(" ")[0])):
                phrases.setdefault(words[0], []).append((words, sounds.split(" ")))
        else:
            own[name] = sounds
            if plain not in _ENGLISH:
                folded[plain] = sounds
    for same_start in phrases.values():
        same_start.sort(key=lambda phrase: -len(phrase[0]))
    return NameTable(folded | own, frozenset(own), phrases)


def _at_either_place(word: str) -> set[str]:
    """How `word` is written within a sentence and at its beginning."""
    return {word, word[:1].upper() + word[1:]}


def to_british(name: str, american: str) -> str:
    """British phonemes of a name, from American ones: long vowels, and an r before vowels alone."""
    sounds = american
    for pattern, replacement in _BRITISH_R:
        sounds = pattern.sub(replacement, sounds)
    return "".join(_british_vowel(sounds, index, name) for index in range(len(sounds))).translate(_BRITISH_VOWELS)


def _british_vowel(sounds: str, index: int, name: str) -> str:
    sound, before, after = sounds[index], sounds[index - 1 : index], sounds[index + 1 : index + 2]
    if sound not in "iuɑɔɜ" or after == "ː":
        return sound
    stressed = before in ("ˈ", "ˌ")
    match sound:
        case "i":
            return "iː" if stressed else "ɪ" if after and after not in _VOWEL and after not in "ˈˌ " else "i"
        case "ɔ":
            return "ɔː" if _LONG_O.search(name) else "ɒ"
        case "ɑ" if "a" not in name.lower():
            return "ɒ"
        case "ɑ":
            return "ɑː" if stressed and not _CLOSED.match(sounds, index + 1) else "a"
        case _:
            return f"{sound}ː"
