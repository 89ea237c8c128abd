"""What people type to each other: thx, pls, tmrw, 2nite; u, r and ur where the words around them are chat, too."""

from __future__ import annotations

import re
from typing import Any

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import AnyWord
from kokoro_server.text.spoken.english.quantities.unit_names import UNITS
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of

_FILE = vocabulary.load("english_chat")
_SAID = _FILE.words("chat")
_AMONG = frozenset(_FILE.having("chat", "among"))
_LETTERS = frozenset(word for word in _AMONG if len(word) == 1) - {"u", "r"}
_HINTS = _AMONG - _LETTERS - {"da", "dis", "id", "ill", "v"}  # words that show that others are chat
_DOTTED = _LETTERS | {"dr", "fr", "min", "mo", "sec", "Secs", "Yrs", "Sched"}  # a dot makes them something else
_CAPS = frozenset(_FILE.having("chat", "caps"))
_FORMS = _SAID | {key.capitalize(): words for key, words in _SAID.items() if key not in _AMONG or len(key) > 2}
_FORMS |= {key.upper(): _SAID[key] for key in _CAPS}
_WORD = re.compile(r"[A-Za-z0-9]+(?:[;-][A-Za-z]+)?")
_AFTER_NUMBER = re.compile(r"[0-9½]\s?\Z")
_REACH = 120  # characters on both sides in which other chat is looked for
_LINE = re.compile(r"[^\n]*\Z"), re.compile(r"[^\n]*")
_CODE = re.compile(r"[={}<>_\\`|]|\w\(|::|;\s*\Z|\):|//")
_CAPITAL = re.compile(r"[A-Z]")
# Words of no other kind of text: of the table, and some that are said as they are written.
_SIGNS = (
    frozenset(_SAID) - _AMONG - frozenset("hrs mins secs wk wks yr yrs thru luv nite asap fyi rsvp eta faq".split())
)
_SIGNS |= frozenset(
    "lol lmao haha hahaha omg yeah yep yup nah nope hey hi wanna gonna gotta kinda lemme gimme dunno "
    "ok yo yea ye ya whats hows wheres "
    "i".split()
)
# Words that are chat in a line without any capital, even if there is no other.
_ALONE = frozenset(
    "abt b bc dw ik jw pw sm tn txt c cant cu gm gn hr im ive no1 prob probs r rn tho ty u ur urs w wont y".split()
)
# The words beside a letter, or a short word, that is chat. `\0` is in its place.
_BESIDE = {
    letter: re.compile(pattern, re.IGNORECASE)
    for letter, pattern in {
        "b": r"\b(?:ll|to|2|will|can|must|wanna|gonna|gotta|would|could|should|not|might|dont|cant|wont|u|just) \0|"
        r"\0 (?:there|here|back|careful|safe|nice|good|right|late|home|ok|happy)\b",
        "id": r"(?:\A|[a-z,.!?] )\0 (?:love|like|rather|say|be|b|have|hav|go|come|do|never|prefer|need|want|hate)\b",
        "dw": r"(?:\A|[a-z,.!?] )\0(?: (?:abt|about|i|it|its|ill|u|we|im)\b|[,!.]*\s*\Z)",
        "weds": r"(?:on|by|til|till|until|only|next|this|last|is|every|and|,) \0",
        "ig": r"[a-z] \0(?:[.!]*\s*\Z|,)|\A\0[, ]",
        "ill": r"(?:\A|[a-z,.!?] )\0 (?:be|b|see|c|cu|call|text|txt|msg|send|let|lyk|check|ask|try|pay|take|go|"
        r"get|come|"
        r"bring|just|prob|probs|probably|do|have|pick|meet|tell|give|brb|b|make|wait|order|never|also|find|give|add|"
        r"dm|ping|help|grab|buy|show|drop|leave|stay|start|talk|think|look|need|cook|drive|join|keep|hit|stop|miss)\b",
        "pw": r"\b(?:wifi|my|ur|the|your|email|new|a|netflix) \0",
        "prob": r"(?<!\bno )\0",
        "sm": r"\b(?:u|ty|you|thanks|thx|that|this|it|him|her) \0",
        "v": r"\b(?:is|was|r|are|im|am|so|its|feeling|feel|looks|look|very|v|were) \0 [a-z]{3}|\A\0 [a-z]{3}",
        "da": r"\0 (?!vinci|silva|gama|costa|nang)",
        "atm": r"(?<!\ban )(?<!\bthe )\0",
        "mo": r"[0-9] ?\0",
        "def": r"(?<!\bthe )(?<!\ba )(?<!\bof )\0",
        "min": r"\b(?:an?|per|one|this|last|every|sec or) \0",
        "sec": r"\b(?:an?|per|one|this|last|every) \0",
        "rn": r"(?<!\ban )(?<!\bthe )(?<!\bas )\0",
        "cu": r"\0 (?:l8r|later|soon|there|then|tmrw|tomorrow|tonight|around|at|in|on)\b|\0[!.]*\s*\Z",
        "txt": r"\b(?:to|ll|will|can|just|pls|please|u|i|me|ur|my|by|a) \0(?! file)|\0 (?:me|u|us|him|her|them|"
        r"back|when|if)\b",
        "u": r"(?<!letter )(?<!vowel )(?<!sound )(?<!\ba )(?<!\bthe )\0",
        "c": r"\b(?:to|2|u|can|ll|will|did|wanna|gonna|never|time no) \0|\0 (?:u|ya|you|what|if|how)\b",
        "k": r"(?:\A|[.!?] )\0(?:[,!?]| (?:thx|ty|cool|see|bye|then|i)\b|\s*\Z)",
        "n": r"[a-z] \0 [a-z]",
        "no1": r"\0 (?:knows|cares|else|ever|can|will|has|likes|said|came|here|[a-z]+ (?:me|us|u|you|him|her|it))\b",
        "r": r"\0 (?:u|we|you|they|the|these|those|not|gonna|so|my|ur|there)\b|"
        r"\b(?:u|we|they|you|how|where|who|what|when|why|y|ppl|guys|these|those|i|kids) \0",
        "w": r"\0 (?:my|the|u|ur|me|him|her|them|us|an?|some|friends|family|no|school|work|it|that|this|mom|dad|"
        r"everyone|all|u)\b",
        "y": r"\0 (?:r|are|do|did|not|is|u|would|dont|didnt)\b",
    }.items()
}
# Where a letter stands for a word even if nothing else shows that it is chat.
_PAIRS = (
    r"(?:r|R) u(?= )|u r(?= )|(?:c|C) (?:u|ya)(?! ?[a-z]\b)|(?:(?<=\b(?:[Ss]ee|[Ll]ove|[Mm]iss|[Tt]hank|[Cc]all|"
    r"[Tt]ext|[Tt]ell|[Aa]re|[Dd]id|[Dd]o|[Hh]ow r|[Ww]ill|[Cc]an|[Ii]f|[Hh]ope|[Ww]ith|[Ff]or|[Gg]ive|[Aa]sk) )u)|"
    r"(?:(?<=[.!?] )|(?<=\A))U(?= (?:ok|okay|there|up|busy|free|home|coming|going|know|want|need|wanna|gonna|r|guys)\b)"
)
# 2 and 4 for to and for, among chat.
_TO = any_of(
    "add answer ask b be bring buy c call change chat check clean come cook cry dance decide die do drive eat "
    "feel find "
    "finish fix get give go grab hang have hear help hit hug hv keep kill know learn leave let lie live lock look lose "
    "love make marry me meet miss move order party pay pick play practice pray quit read remember reply ride "
    "run say see "
    "send sign sing sit sleep spend start stay stop study swim switch take talk tell text think travel try turn "
    "txt type "
    "u understand use visit wait walk wanna watch wear win work worry write you".split()
)
# Words after which it is never the number.
_BEFORE_TO = any_of(
    "go goes going goin went come comin coming back moved over next close talk talked talking listen listening "
    "send sent "
    "way headed heading drive driving driven walk walking welcome according got2 up down invited return fly "
    "flying".split()
)
_FOR = any_of(
    "u you me us ur your the my real ever sure him her them now dinner lunch it that this tonight tmrw tomorrow "
    "2nite 2day today breakfast brunch work school later a an some xmas bday sat sun mon tue tues wed weds thu "
    "thur thurs "
    "fri saturday sunday monday tuesday wednesday thursday friday everything all every".split()
)


def _typed(match: Any, _dialect: Dialect) -> SpokenWords:
    word = match["word"]
    said = _FORMS.get(word)
    if said is None or (word in UNITS and _AFTER_NUMBER.search(match.string, max(0, match.start() - 2), match.start())):
        return None
    if word in _DOTTED and match.string[match.end() : match.end() + 1] == ".":
        return None
    if word.lower() in _AMONG and not _is_chat(match):
        return None
    return said if not word[0].isupper() or said[0].isupper() else f"{said[0].upper()}{said[1:]}"


def _is_chat(match: Any) -> bool:
    """Whether the line has other chat near a match, or is without any capital, and is no code."""
    text, (start, end) = match.string, match.span()
    before = _LINE[0].search(text, max(0, start - _REACH), start)
    after = _LINE[1].match(text, end, min(len(text), end + _REACH))
    left, right = before[0] if before else "", after[0] if after else ""
    if _CODE.search(left) or _CODE.search(right):
        return False
    if match[0] in _BESIDE and not _BESIDE[match[0]].search(f"{left}\0{right}"):
        return False
    words = _WORD.findall(f"{left} {right}")
    if not _SIGNS.isdisjoint(words) or any(word.lower() in _SIGNS for word in words[:1]):
        return True
    typed = not _HINTS.isdisjoint(words)
    return typed or (match[0] in _ALONE and bool(words) and not _CAPITAL.search(f"{left}{match[0]}{right}"))


def _number(match: Any, _dialect: Dialect) -> SpokenWords:
    return ("to" if match[0] == "2" else "for") if _is_chat(match) else None


def _heart(match: Any, _dialect: Dialect) -> SpokenWords:
    """I <3 NY; at the end of a line it is as silent as other faces."""
    return "heart" if match["love"] is not None else "" if _is_chat(match) else None


def _pair(match: Any, _dialect: Dialect) -> SpokenWords:
    return " ".join(_SAID.get(word.lower(), word) for word in match[0].split(" "))


RULES = [
    # :tada: as in Slack and Discord.
    rule("emoji", r"(?<![\p{L}\p{N}:])(?::(?:\+1|-1|[a-z][a-z0-9_]{1,30}):)+(?![\p{L}\p{N}:`])", "", ":"),
    rule(
        "chat",
        r"(?:(?<=\b(?i:i|we|u|you|they|they all|still|really|all) )(?P<love><3)(?= \p{L})|"
        r"(?<=\p{L}{2}[!.?,]{0,3} )<3+(?=[ .!]*(?:\Z|\n)))",
        _heart,
        "<",
    ),
    rule("chat", rf"(?<=\b(?:{_BEFORE_TO}) )2(?= (?:the|a|my|ur|your|bed|school|work|sleep|get|see|be)\b)", "to", "2"),
    rule(
        "chat",
        rf"(?<![\p{{L}}\p{{N}}.'’@#/_-])(?:{_PAIRS})(?![\p{{L}}\p{{N}}'’@/_-]|\.\p{{L}})",
        _pair,
        AnyWord(["u", "c", "U"]),
    ),
    rule(
        "chat",
        r"(?<![\p{L}\p{N}.'’@#/_$&+-])(?P<word>[A-Za-z0-9]++(?:;[DdRr]++)?+)(?![\p{L}\p{N}'’@/_&+(=]|\.\p{L}|-\p{L})",
        _typed,
        AnyWord(_FORMS, digits=True),
    ),
    rule(
        "chat",
        rf"(?<=\p{{L}}8? )(?:2(?= (?:{_TO})\b)|(?:(?<=\b(?:{_BEFORE_TO}) )2(?= \p{{L}}))|4(?= (?:{_FOR})\b))"
        rf"(?! (?!(?i:thurs|tues|weds|us|this|class)\b)\p{{L}}+s\b)",
        _number,
        "24",
        AnyWord([*_SIGNS, *_AMONG], digits=True),
    ),
]
