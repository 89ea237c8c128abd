"""misaki's English lexicon, and what it does not know: contractions, shouted words, accents, drawn-out words."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import resources
from typing import Any

from misaki import data, en  # type: ignore[import-untyped]

from kokoro_server.g2p.service.foreign_names import read_foreign
from kokoro_server.g2p.service.latin_letters import to_latin, without_accents
from kokoro_server.g2p.service.names import load_names, to_british

Found = tuple[str | None, int | None]

# American and British.
_WORDS = {
    "'tis": ("tˈɪz", "tˈɪz"),
    "'twas": ("twˈʌz", "twˈɒz"),
    "'twere": ("twˈɜɹ", "twˈɜː"),
    "'twould": ("twˈʊd", "twˈʊd"),
    "d'you": ("ʤu", "ʤuː"),
    "d'ya": ("ʤə", "ʤə"),
    "ó": ("ˈO", "ˈQ"),  # Ó Briain
    "ol'": ("ˈOl", "ˈQl"),
    "brr": ("bˈɜɹ", "bˈɜː"),
    "grr": ("ɡˈɜɹ", "ɡˈɜː"),
    "shh": ("ʃˈʃ", "ʃˈʃ"),
    "zzz": ("zˈzz", "zˈzz"),
    "psst": ("psst", "psst"),
    "pfft": ("pfft", "pfft"),
    # misaki knows these only as the coin and the seas of the moon.
    "Anna": ("ˈænə", "ˈanə"),
    "Maria": ("məɹˈiə", "məɹˈiːə"),
}
APHERESES = frozenset(word[1:] for word in _WORDS if word.startswith("'"))
_CONTRACTION = re.compile(r"(?i)(?P<stem>.+)(?P<ending>'(?:re|ve|d)|n't)")
_RATING = 3  # as misaki rates what it has put together
_VOWEL_ENDS = frozenset(en.VOWELS) | {"ː"}
_DRAWN_OUT = re.compile(r"(?i)([a-z])\1{2,}")
_ACUTE_END = re.compile(r"(?i)[éè]e?s?")
# A word in capitals that is not known is said, not spelled, if it can be.
_ONSET = (
    "bl|br|chr?|cl|cr|dr|dw|fl|fr|gh|gl|gn|gr|kh|kl|kn|kr|kw|phr?|pl|pr|ps|pt|qu|rh|sch?|scr|shr?|sk|sl|sm|sn|sph?|spl|"
    "spr|squ|str?|sv|sw|thr?|tr|ts|tw|wh|wr|zh|[b-df-hj-np-tv-z]"
)
_CODA = (
    "ch|ck|cks|ct|cts|ff|ft|gh|ks|ld|lf|lk|ll|lls|lm|lp|ls|lt|mb|mp|mps|nc|nch|nd|nds|ng|ngs|nk|nn|ns|nt|nts|nx|ph|ps|"
    "pt|rb|rc|rch|rd|rds|rf|rg|rk|rks|rl|rm|rms|rn|rns|rp|rr|rs|rst|rt|rth|rts|rx|sh|sk|sm|sp|ss|st|sts|th|ths|ts|tt|tz|"
    "x|zz|[b-df-gj-np-tv-z]"
)
_PRONOUNCEABLE = re.compile(rf"(?:{_ONSET})?[aeiouy]+(?:[b-df-hj-np-tv-z]{{1,3}}[aeiouy]+)*(?:{_CODA})?")
_SHORTEST_SHOUTED, _SHORTEST_UNKNOWN = 4, 5  # letters
_SHORTEST_FOREIGN = 3  # letters
_SHORTEST_PART = 3  # letters of a compound that is read without its hyphen
_WORDS_KEPT = 8_192  # words of which it is remembered whether they are names: most of a text are the same few
_NAME = "name"  # read as the table of names says


class EnglishLexicon(en.Lexicon):  # type: ignore[misc]
    def __init__(self, british: bool) -> None:
        """As misaki's own, which also checks each letter of its dictionaries. That takes half of the time."""
        self.british = british
        self.cap_stresses = (0.5, 2)
        self.golds, self.silvers = (_load(f"{'gb' if british else 'us'}_{kind}.json") for kind in ("gold", "silver"))
        self.golds |= {word: sounds[british] for word, sounds in _WORDS.items()}
        self.golds |= {word.capitalize(): sounds[british] for word, sounds in _WORDS.items()}
        names = load_names(british)
        english = self.golds.keys() | self.silvers.keys()
        # A name without its accents may be another word: Rosé, Rose.
        self._names = {
            name: sound
            for name, sound in names.words.items()
            if name in names.own or english.isdisjoint((name, name.lower()))
        }
        self.phrases = names.phrases
        self._name_of = lru_cache(_WORDS_KEPT)(self._get_name)
        self.read_as: dict[str, str] = {}  # `name` or a language, by the words that were so read; for its user to clear

    def get_word(self, word: str, tag: str, stress: float | None, ctx: Any) -> Found:
        """As misaki's own, with more ways to find a word that is not written as in the lexicon."""
        written, word = word, to_latin(word)
        if name := self._name_of(word):
            self.read_as[written] = _NAME
            return name, _RATING
        found = self._get_english(word, tag, stress, ctx)
        if found[0] is None and (foreign := self._get_foreign(word)):
            sound, self.read_as[written] = foreign
            return sound, _RATING
        return found

    def possessive(self, sound: str) -> str:
        ending: str = self._s(sound)
        return ending

    def _get_name(self, word: str) -> str | None:
        for stem, ending in ((word, ""), (word[:-2], "'s"), (word[:-1], "'")):
            if word.endswith(ending) and (sound := self._find_name(stem)):
                return self.possessive(sound) if ending == "'s" else sound
        return None

    def _find_name(self, word: str) -> str | None:
        if sound := self._names.get(word):
            return sound
        if not word.isascii() and (sound := self._names.get(without_accents(word))) and _fits(word, sound):
            return sound
        if not word[:1].isupper():
            return None
        if word[1:].islower():
            return self._names.get(word.lower())
        if word.isupper() and len(word) >= _SHORTEST_SHOUTED and word not in self.golds:
            return self._names.get(word.title())
        return None

    def _get_foreign(self, word: str) -> tuple[str, str] | None:
        """A word that no lexicon knows: a name in small letters, several of a name, or one of another language."""
        stem, ending = (word[:-2], "'s") if word.endswith("'s") else (word.removesuffix("'"), "")
        if len(stem) < _SHORTEST_FOREIGN or not stem.isalpha():
            return None
        if sound := self._names.get(stem.capitalize()):
            found = sound, _NAME
        elif stem.endswith("s") and (sound := self._find_name(stem[:-1])):
            found = self.possessive(sound), _NAME
        elif not stem[0].isupper() or not (foreign := read_foreign(stem.capitalize() if stem.isupper() else stem)):
            return None
        else:
            found = to_british(stem, foreign[0]) if self.british else foreign[0], foreign[1]
        return (self.possessive(found[0]), found[1]) if ending else found

    def _get_english(self, word: str, tag: str, stress: float | None, ctx: Any) -> Found:
        if word.isupper() and word not in self.golds:
            word, tag = self._lowered(word, tag)
        found = self._get_known(word, tag, stress, ctx)
        if found[0] is None and (contraction := _CONTRACTION.fullmatch(word)):
            found = self._get_contraction(contraction["stem"], contraction["ending"].lower(), tag, stress, ctx)
        if found[0] is None and (joined := self._joined(word)):
            found = self._get_known(joined, tag, stress, ctx)
        return found if found[0] is not None else self._get_respelled(word, tag, stress, ctx)

    def _get_known(self, word: str, tag: str, stress: float | None, ctx: Any) -> Found:
        found: Found = super().get_word(word, tag, stress, ctx)
        return found

    def _joined(self, word: str) -> str:
        """A compound with a part that alone is said in several ways, without its hyphen: head-winds, row-locks."""
        first, hyphen, last = word.partition("-")
        if not hyphen or min(len(first), len(last)) < _SHORTEST_PART or first.lower() == "pre" or not last.islower():
            return ""
        return first + last if self._is_heteronym(first) or self._is_heteronym(last) else ""

    def _is_heteronym(self, word: str) -> bool:
        small = word.lower()
        return any(isinstance(self.golds.get(each), dict) for each in (small, small.removesuffix("s")))

    def _lowered(self, word: str, tag: str) -> tuple[str, str]:
        """A shouted word in small letters. misaki spells what is in capitals, if spaCy takes it for a name."""
        if (contraction := _CONTRACTION.fullmatch(word)) and contraction["stem"].lower() in self.golds:
            return word.lower(), "NN" if tag == "NNP" else tag
        stem, possessive = (word[:-2], "'s") if word.endswith("'S") else (word, "")
        if self._is_shouted(stem):
            return stem.lower() + possessive, "NN" if tag == "NNP" else tag
        return stem + possessive, tag

    def _is_shouted(self, word: str) -> bool:
        small = word.lower()
        if len(word) < _SHORTEST_SHOUTED or not (word.isascii() and word.isalpha()) or word in self.silvers:
            return False
        if small in self.golds or any(self._is_inflected(small, ending) for ending in ("s", "es", "ed", "d", "ing")):
            return True
        return len(word) >= _SHORTEST_UNKNOWN and _PRONOUNCEABLE.fullmatch(small) is not None

    def _is_inflected(self, word: str, ending: str) -> bool:
        return word.endswith(ending) and len(word) - len(ending) > 2 and word.removesuffix(ending) in self.golds

    def _get_contraction(self, stem: str, ending: str, tag: str, stress: float | None, ctx: Any) -> Found:
        """how're, that'd, they'd've, daren't: what is before the ending, and the ending as it sounds after that."""
        sound, _ = self.get_word(stem, tag, stress, ctx)
        if not sound:
            return None, None
        after_vowel = sound[-1] in _VOWEL_ENDS
        # A silent r at the end of the stem is said before a vowel.
        link = "ɹ" if self.british and after_vowel and stem.lower().rstrip("e").endswith("r") else ""
        if not self.british and sound[-1] == "t" and sound[-2:-1] in en.US_TAUS and ending != "n't":
            sound = f"{sound[:-1]}ɾ"
        if ending == "n't":
            return f"{sound}{link}ᵊnt", _RATING
        if ending == "'re":
            return f"{sound}{link}{'ə' if self.british else 'əɹ'}", _RATING
        if ending == "'ve":
            return f"{sound}{link}{'v' if after_vowel and not link else 'əv'}", _RATING
        return f"{sound}{'əd' if sound[-1] in 'tdɾ' else 'd'}", _RATING

    def _get_respelled(self, word: str, tag: str, stress: float | None, ctx: Any) -> Found:
        for spelling in self._spellings(word):
            if spelling.lower() in self.golds:
                found = self._get_known(spelling, tag, stress, ctx)
                if found[0] is not None and _fits(word, found[0]):
                    return found
        return None, None

    def _spellings(self, word: str) -> list[str]:
        """Other ways to write `word`: without its accents or apostrophes (Xi'an), or not drawn out (sooo)."""
        spellings = [] if word.isascii() or len(word) == 1 else [without_accents(word)]
        if "'" in word.strip("'"):
            spellings.append(word.replace("'", ""))
        if _DRAWN_OUT.search(word):
            spellings += [_DRAWN_OUT.sub(r"\1\1", word), _DRAWN_OUT.sub(r"\1", word)]
        return spellings


def _load(name: str) -> dict[str, Any]:
    """One of misaki's dictionaries, with the capitalized forms of its words."""
    words = json.loads(resources.files(data).joinpath(name).read_text(encoding="utf-8"))
    grown: dict[str, Any] = en.Lexicon.grow_dictionary(words)
    return grown


def _fits(word: str, sound: str) -> bool:
    """Whether what a word without accents sounds like is right with them: rosé is not rose."""
    if _ACUTE_END.search(word[-3:]) and sound.rstrip("sz")[-1:] != "A":
        return False
    return "ñ" not in word or "nj" in sound
