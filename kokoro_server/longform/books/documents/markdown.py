"""Markdown, by way of HTML, which it may hold as well."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import web_page
from kokoro_server.longform.books.documents.elements import Budget, parse
from kokoro_server.longform.books.documents.encoding import decode
from kokoro_server.longform.books.documents.flow import About
from kokoro_server.longform.books.documents.limits import MAX_TEXT, MIB
from kokoro_server.text.markup import PRONUNCIATION_MARKUP

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:\s+|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)\s*")
_RULE = re.compile(r" {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")  # a longer number is a year
_INTERRUPTING = re.compile(r"\s*(?:[-*+]|1[.)])\s+\S")  # another number at the start of a line is of the text
_NOTE = re.compile(r" {0,3}\[\^([^\]\s]{1,60})\]:\s*")
_TARGET = re.compile(r" {0,3}\[([^\]]{1,300})\]:\s*\S+(?:\s+[\"'(].*)?\s*")
_QUOTE = re.compile(r" {0,3}> ?")
_ROW = re.compile(r"\s*\|.*\|\s*")
_RULED = re.compile(r"\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+")  # between the head and the body of a table
_FRONT = {"---": (":", ("---", "...")), "+++": ("=", ("+++",))}  # a sign that its lines have, and how it may end
_FACT = re.compile(r"(title|author|authors|creator|lang|language)\s*[:=]\s*(.{1,300})", re.I)
_DEEPEST = 8  # quotations within each other

_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_CODE = re.compile(r"(?<!`)(`{1,3})(?!`)([^`\n]{1,1000})\1(?!`)")
_IMAGE = re.compile(r"!\[[^\[\]]{0,500}\](?:\([^()\n]{0,1000}\)|\[[^\[\]]{0,300}\])")
_LINK = re.compile(
    r"\[([^\[\]]{0,500})\]"
    r"(?:\((?!/[^()\n]{1,510}/\))[^()\n]{0,1000}(?:\([^()\n]{0,300}\)[^()\n]{0,300})?\)|\[[^\[\]]{0,300}\])"
)
_ADDRESS = re.compile(r"<((?:[a-z][a-z\d+.-]{1,31}:[^<>\s]{1,1000})|[\w.+-]{1,64}@[\w.-]{1,255})>", re.I)
_REFERENCE = re.compile(r"\[\^([^\]\s]{1,60})\]")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*]{1,1000})(?<=[^\s*])\1(?![\w*])")
_UNDERSCORES = re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])([^_]{1,1000})(?<=[^\s_])\1(?!\w)")
_WITHIN_WORD = re.compile(r"(\*{1,3})(?=[^\s*])([^*\n]{1,200})(?<=[^\s*])\1")
_STRUCK = re.compile(r"~~(?=\S)([^~]{1,1000})(?<=\S)~~")


def read(content: bytes, title: str) -> Book:
    if len(content) > MAX_TEXT:
        raise UnreadableDocument(f"its text is larger than {MAX_TEXT // MIB} MiB")
    text, guessed = decode(content)
    lines = text.expandtabs(4).splitlines()
    facts, body = _front_matter(lines)
    writer = _Writer({match[1] for line in body if (match := _NOTE.match(line))})
    if len(lines) > len(body):
        writer.out.append(f'<div hidden="">{html.escape(" ".join(lines[: len(lines) - len(body)]))}</div>')
    writer.blocks(body, 0)
    root = parse("\n".join(writer.out), Budget())
    first = next((element for element in root.walk() if element.name == "h1"), None)
    author = facts.get("author") or facts.get("authors") or facts.get("creator")
    about = About(
        facts.get("title") or (first.text() if first is not None else "") or title,
        (author,) if author else (),
        facts.get("lang") or facts.get("language"),
        remarks=(f"it is not UTF-8: read as {guessed}",) if guessed else (),
    )
    return web_page.from_elements(root, about)


def _front_matter(lines: Sequence[str]) -> tuple[dict[str, str], Sequence[str]]:
    """What is told of the text between two lines of dashes (YAML) or plus signs (TOML) before it."""
    opening = lines[0].strip() if lines else ""
    if opening not in _FRONT:
        return {}, lines
    sign, closing = _FRONT[opening]
    end = next((number for number, line in enumerate(lines[1:200], 1) if line.strip() in closing), None)
    if end is None or not all(sign in line or not line.strip() or line[0] in " -#[]" for line in lines[1:end]):
        return {}, lines
    matches = (_FACT.fullmatch(line.strip()) for line in lines[1:end])
    return {match[1].lower(): match[2].strip(" \"'") for match in matches if match}, lines[end + 1 :]


class _Writer:
    def __init__(self, notes: set[str]) -> None:
        self.out: list[str] = []
        self._notes = notes

    def blocks(self, lines: Sequence[str], depth: int) -> None:
        number = 0
        while number < len(lines):
            line = lines[number]
            if not line.strip():
                number += 1
            elif fence := _FENCE.match(line):
                number = self._fenced(lines, number + 1, fence[1])
            elif heading := _HEADING.match(line):
                text = line[heading.end() :].rstrip()
                bare = text.rstrip("#")  # which may also stand behind it
                self._element(f"h{len(heading[1])}", bare if bare.endswith(" ") or not bare else text)
                number += 1
            elif _RULE.fullmatch(line):
                self.out.append("<hr>")
                number += 1
            elif _QUOTE.match(line) and depth < _DEEPEST:
                end = _while(lines, number, lambda line: bool(line.strip()))
                self.out.append("<blockquote>")
                self.blocks([_QUOTE.sub("", line, count=1) for line in lines[number:end]], depth + 1)
                self.out.append("</blockquote>")
                number = end
            elif note := _NOTE.match(line):
                end = _while(lines, number + 1, lambda line: line.startswith("    ") or not line.strip())
                self._element("aside", " ".join((line[note.end() :], *lines[number + 1 : end])), ' class="footnote"')
                number = end
            elif _TARGET.fullmatch(line):
                self.out.append(f'<div hidden="">{html.escape(line)}</div>')
                number += 1
            elif "|" in line and number + 1 < len(lines) and _RULED.fullmatch(lines[number + 1]):
                end = _while(lines, number, lambda line: "|" in line)
                for row in (line, *lines[number + 2 : end]):
                    self._row(row)
                number = end
            elif _ITEM.match(line):
                number = self._item(lines, number)
            elif _ROW.fullmatch(line):
                self._row(line)
                number += 1
            else:
                number = self._paragraph(lines, number)

    def _row(self, line: str) -> None:
        if not {*line} <= {*" |:-"}:
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                self._element("li", cell)

    def _fenced(self, lines: Sequence[str], number: int, fence: str) -> int:
        end = _while(lines, number, lambda line: not line.strip().startswith(fence))
        self.out.append(f"<pre>{html.escape(chr(10).join(lines[number:end]))}</pre>")
        return end + 1

    def _item(self, lines: Sequence[str], number: int) -> int:
        end = _while(lines, number + 1, lambda line: bool(line.strip()) and not _begins_block(line))
        item = _ITEM.sub("", lines[number], count=1)
        self._element("li", "\n".join((item, *lines[number + 1 : end])))
        return end

    def _paragraph(self, lines: Sequence[str], number: int) -> int:
        end = _while(
            lines,
            number + 1,
            lambda line: bool(line.strip()) and (not _begins_block(line) or _is_number(line)),
        )
        if end < len(lines) and (underline := _UNDERLINE.fullmatch(lines[end])):
            self._element("h1" if underline[1].startswith("=") else "h2", "\n".join(lines[number:end]))
            return end + 1
        broken = [line.rstrip("\\") + "<br>" if line.endswith(("  ", "\\")) else line for line in lines[number:end]]
        text = "\n".join(broken)
        if text.lstrip().startswith("<"):
            self.out.append(self._inline(text))  # HTML of its own
        else:
            self._element("p", text.removesuffix("<br>"))
        return end

    def _element(self, name: str, text: str, attributes: str = "") -> None:
        self.out.append(f"<{name}{attributes}>{self._inline(text)}</{name}>")

    def _inline(self, text: str) -> str:
        # What may not be read again is put away as character references.
        text = _ESCAPED.sub(lambda match: f"&#{ord(match[1])};", text)
        text = _CODE.sub(lambda match: _references(match[2]), text)
        text = PRONUNCIATION_MARKUP.sub(lambda match: _references(match[0]), text)
        text = _IMAGE.sub("", text)
        text = _REFERENCE.sub(self._reference, text)
        text = _ADDRESS.sub(lambda match: html.escape(match[1]), text)
        text = _LINK.sub(r"\1", text)
        for pattern in (_EMPHASIS, _UNDERSCORES, _EMPHASIS, _UNDERSCORES, _WITHIN_WORD):
            text = pattern.sub(r"\2", text)
        return _STRUCK.sub(r"\1", text)

    def _reference(self, match: re.Match[str]) -> str:
        if match[1] not in self._notes:
            return match[0]
        return f'<a epub:type="noteref">{html.escape(match[0])}</a>'


def _references(text: str) -> str:
    return "".join(
        character if character.isalnum() or character.isspace() else f"&#{ord(character)};" for character in text
    )


def _begins_block(line: str) -> bool:
    return any(pattern.match(line) for pattern in (_FENCE, _HEADING, _QUOTE, _NOTE, _ITEM, _ROW)) or bool(
        _RULE.fullmatch(line) or _UNDERLINE.fullmatch(line)
    )


def _is_number(line: str) -> bool:
    """Whether its first number only looks like an item's: within a paragraph, a list begins at 1."""
    return _ITEM.match(line) is not None and not _INTERRUPTING.match(line) and line.lstrip()[:1].isdigit()


def _while(lines: Sequence[str], number: int, holds: Callable[[str], bool]) -> int:
    while number < len(lines) and holds(lines[number]):
        number += 1
    return number
