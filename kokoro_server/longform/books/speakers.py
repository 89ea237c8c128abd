"""The characters who speak in a book, so that a user can choose their voices."""

from __future__ import annotations

import re
from collections import Counter

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.data_files import load
from kokoro_server.longform.books.dialogue import VERBS, Dialogue

MAX_SPEAKERS = 20
MAX_CANDIDATES = 100  # names whose lines are counted
LEAST_LINES = 2
_NAME = r"((?:(?:Mr|Mrs|Dr|St)\.\s+)?[A-Z][\w’'-]+(?:\s+[A-Z][\w’'-]+){0,2})"
# After a quotation: said Alice; said the White Rabbit; Alice said.
_ATTRIBUTION = re.compile(rf"[”’\"'»](?:\s+(?:{VERBS})\s+(?:the\s+)?{_NAME}|\s+(?:[Tt]he\s+)?{_NAME}\s+(?:{VERBS})\b)")
# Of a play: HAMLET: or Ham.: at the start of a line.
_LABEL = re.compile(r"\s*([A-Z][A-Z.'’ -]{1,40}?)\s*(?:[\[(][^\[\]()]{0,200}[\])])?\s*[:：]\s*\S")
_NO_NAMES = frozenset(load("dialogue")["no_names"])


def speakers(book: Book) -> list[tuple[str, int]]:
    """Names to which voices can be given, with their lines, most first. Takes a while: call it in a thread."""
    candidates = Counter[str]()
    for chapter in book.chapters:
        for block in chapter.blocks:
            if label := _LABEL.match(block.text):
                candidates[" ".join(label[1].split())] += 1
            for found in _ATTRIBUTION.finditer(block.text):
                name = " ".join((found[1] or found[2]).split())
                if name not in _NO_NAMES:
                    candidates[name] += 1
    likely = [name for name, count in candidates.most_common(MAX_CANDIDATES) if count >= LEAST_LINES]
    return _lines_of(book, likely)[:MAX_SPEAKERS]


def _lines_of(book: Book, names: list[str]) -> list[tuple[str, int]]:
    """How many lines each name would have in the cast."""
    if not names:
        return []
    lines = Counter[str]()
    dialogue = Dialogue({name: name for name in names})
    for chapter in book.chapters:
        dialogue.end_scene()
        for block in chapter.blocks:
            if block.kind == "heading":
                dialogue.end_scene()
            lines.update(turn.voice for turn in dialogue.turns(block.text) if turn.voice)
    return [(name, count) for name, count in lines.most_common() if count >= LEAST_LINES]
