"""What a message says: its text without markup, and the marks whose passing Speech Dispatcher wants to hear of."""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

_TAG = re.compile(r"<!--.*?-->|<\?.*?\?>|<(?P<close>/?)(?P<name>[A-Za-z][\w:.-]*)(?P<rest>[^<>]*?)/?>", re.DOTALL)
_NAME = re.compile(r"""\bname\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_BRACKETS = str.maketrans("[]", "()")  # `[pause:9s]` on a page is no pause, but text
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
# What each mode names. Speech Dispatcher mostly does it itself, by its own files, and then asks for "none".
_SOME = set("#$%&*+/<=>@\\^_`|~€£¥§°©®™")
_MOST = _SOME | set('()[]{}"“”«»:;–—-…•·')
_PROSODY = set(".,;:!?…")  # what is named stays, because it also shapes the sentence
CAPITALS = {"en": "capital", "es": "mayúscula", "fr": "majuscule", "it": "maiuscola", "pt": "maiúscula"}

_SPEAK = ("<speak>", "</speak>")  # around the SSML that is made here
_SENTENCE_END = re.compile(r"[.!?。！？]\s|\n")
_SSML_WORD_END = re.compile(r"</say-as>|\s(?=[^<>]*<(?!/))")  # outside of tags and of what they hold

NameOf = Callable[[str], str]
Marks = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class ReaderMessage:
    """A text, or a document of SSML, and the places of its marks in it."""

    text: str
    marks: Marks = ()
    ssml: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()


def parse(document: str) -> ReaderMessage:
    """The text of an SSML document, with its entities resolved. Tags that are not closed, or not SSML, are no error."""
    text: list[str] = []
    marks: list[tuple[int, str]] = []
    length = position = 0

    def add(piece: str) -> None:
        nonlocal length
        piece = html.unescape(_FORBIDDEN.sub(" ", piece))
        piece = _FORBIDDEN.sub(" ", piece)  # &#0; and its like
        text.append(piece)
        length += len(piece)

    for tag in _TAG.finditer(document):
        add(document[position : tag.start()])
        position = tag.end()
        if tag["name"] == "mark" and (name := _NAME.search(tag["rest"])):
            marks.append((length, html.unescape(name[1] or name[2] or "")))
        elif tag["name"] in ("p", "s", "br", "break"):
            add(" ")
    add(document[position:])
    written = "".join(text)
    return ReaderMessage(written if len(written.strip()) == 1 else written.translate(_BRACKETS), tuple(marks))


def character(text: str, name_of: NameOf, *, capital: str = "") -> ReaderMessage:
    """A single character by its name. `capital` is the word before a capital letter; empty: none."""
    each = text.strip() or " "
    if len(each) == 1 and each.isalpha():
        if capital and each.isupper():
            return ReaderMessage(f"<speak>{capital} {_letters(each)}</speak>", ssml=True)
        return ReaderMessage(each)
    return (
        ReaderMessage(name_of(each))
        if len(each) == 1 and not each.isalnum()
        else ReaderMessage(each.translate(_BRACKETS))
    )


def key(text: str, name_of: NameOf) -> ReaderMessage:
    """The name of a key, such as `shift_a` or `kp-enter`: letters are spelled, signs named."""
    parts = [part for part in re.split(r"[_\s]+", text.strip()) if part] or [text.strip() or "space"]
    said = [
        _letters(part)
        if len(part) == 1 and part.isalpha()
        else _escape(name_of(part) if len(part) == 1 and not part.isalnum() else part.replace("-", " "))
        for part in parts
    ]
    return ReaderMessage(f"<speak>{' '.join(said)}</speak>", ssml=True)


def spelled(message: ReaderMessage, name_of: NameOf, *, capital: str = "") -> ReaderMessage:
    """Letter by letter."""

    def piece(run: str) -> str:
        if not run[0].isalnum():
            return " ".join(["", *(_escape(name_of(each)) for each in run if not each.isspace()), ""])
        if capital and any(map(str.isupper, run)):
            return " ".join(f"{capital} {_letters(each)}" if each.isupper() else _letters(each) for each in run)
        return _letters(run)

    runs = re.compile(r"[^\W_]{1,200}|[\W_]+")
    composed = _composed(message, runs, piece)
    return ReaderMessage(composed.text.join(_SPEAK), _moved(composed.marks, len(_SPEAK[0])), ssml=True)


def punctuated(message: ReaderMessage, mode: str, name_of: NameOf) -> ReaderMessage:
    """With the names of the signs that `mode` asks for. An apostrophe within a word is none."""
    signs = _SOME if mode == "some" else _MOST

    def named(sign: str) -> bool:
        return unicodedata.category(sign)[0] in "PS" if mode == "all" else sign in signs

    def piece(run: str) -> str:
        if not named(run):
            return run
        return f" {name_of(run)}{run if run in _PROSODY else ''} "

    return _composed(message, re.compile(r"(?<=\w)['’](?=\w)|[^\W]+|\s+|.", re.DOTALL), _only_signs(piece))


def _only_signs(piece: Callable[[str], str]) -> Callable[[str], str]:
    return lambda run: piece(run) if len(run) == 1 and not run.isalnum() and run not in "'’" else run


def _composed(message: ReaderMessage, runs: re.Pattern[str], piece: Callable[[str], str]) -> ReaderMessage:
    """Each run of the text replaced by its piece. A run ends where a mark is."""
    cuts = sorted({0, len(message.text), *(min(at, len(message.text)) for at, _ in message.marks)})
    places: dict[int, int] = {}
    composed: list[str] = []
    length = 0
    for start, end in zip(cuts, [*cuts[1:], cuts[-1]], strict=True):
        places[start] = length
        for run in runs.findall(message.text[start:end]):
            composed.append(piece(run))
            length += len(composed[-1])
    marks = tuple((places[min(at, len(message.text))], name) for at, name in message.marks)
    return ReaderMessage("".join(composed), marks)


def _letters(text: str) -> str:
    return f'<say-as interpret-as="characters">{_escape(text)}</say-as>'


def _escape(text: str) -> str:
    return html.escape(text.translate(_BRACKETS), quote=False)


def unicode_name(sign: str) -> str:
    """The name in English that Unicode gives a sign: the last resort."""
    return " ".join(filter(None, (unicodedata.name(each, "").lower() for each in sign))) or "unknown character"


def split(message: ReaderMessage, longest: int) -> list[ReaderMessage]:
    """Parts of at most `longest` characters, which end where a sentence or a word does. Each of SSML is a document."""
    if len(message.text) <= longest:
        return [message]
    if not message.ssml:
        return _cut(message, longest, _SENTENCE_END)
    before, after = len(_SPEAK[0]), len(_SPEAK[1])
    inner = ReaderMessage(message.text[before:-after], _moved(message.marks, -before))
    parts = _cut(inner, longest - before - after, _SSML_WORD_END)
    return [ReaderMessage(part.text.join(_SPEAK), _moved(part.marks, before), ssml=True) for part in parts]


def _moved(marks: Marks, by: int) -> Marks:
    return tuple((at + by, name) for at, name in marks)


def _cut(message: ReaderMessage, longest: int, ends: re.Pattern[str]) -> list[ReaderMessage]:
    parts: list[ReaderMessage] = []
    start, text = 0, message.text
    while len(text) - start > longest:
        window = text[start : start + longest]
        *_, end = [0, *(found.end() for found in ends.finditer(window))]
        end = start + (end or window.rfind(" ") + 1 or longest)
        parts.append(_part(message, start, end))
        start = end
    return [*parts, _part(message, start, len(text) + 1)]


def _part(message: ReaderMessage, start: int, end: int) -> ReaderMessage:
    places = [at for at, _ in message.marks]
    first = bisect_right(places, start - 1)
    inside = message.marks[first : bisect_right(places, end - 1)]
    return ReaderMessage(message.text[start:end], tuple((at - start, name) for at, name in inside), message.ssml)
