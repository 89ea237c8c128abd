"""Markdown, by markdown-it-py, as HTML, which it may hold as well.

Where the parser would drop text, a rule of ours takes its place: cells beyond a table's head, blocks nested too deeply,
definitions of links, numbers that look like those of a list.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import web_page
from kokoro_server.longform.books.documents.elements import Budget, parse
from kokoro_server.longform.books.documents.encoding import decode_document
from kokoro_server.text.markup import PRONUNCIATION_MARKUP

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

    BlockRule = Callable[[StateBlock, int, int, bool], bool]

_NOTE = re.compile(r" {0,3}\[\^([^\]\s]{1,60})\]:\s*")
_REFERENCE = re.compile(r"\[\^([^\]\s]{1,60})\]")
_ROW = re.compile(r"\|.*\|\s*")
_RULED = re.compile(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*")  # between the head and the body of a table
_YEAR = re.compile(r"\d{4,}[.)]")  # the number of an item is shorter
_TASK = re.compile(r"(<li>\s*(?:<p>)?)\[[ xX]\]\s+")
_DEEPEST = 16  # levels of quotations and lists; the parser drops what is deeper than 20
_FRONT = {"---": (":", ("---", "...")), "+++": ("=", ("+++",))}  # a sign that its lines have, and how it may end
_FACT = re.compile(r"(title|author|authors|creator|lang|language)\s*[:=]\s*(.{1,300})", re.I)


def read(content: bytes, title: str) -> Book:
    text, remarks = decode_document(content)
    lines = text.expandtabs(4).splitlines()
    facts, body = _front_matter(lines)
    notes = {match[1] for line in body if (match := _NOTE.match(line))}
    front = _hidden(" ".join(lines[: len(lines) - len(body)]))
    root = parse(front + _TASK.sub(r"\1", _parser().render("\n".join(body), {"notes": notes})), Budget())
    author = facts.get("author") or facts.get("authors") or facts.get("creator")
    book = Book(
        facts.get("title") or root.find("h1").text() or title,
        authors=(author,) if author else (),
        language=facts.get("lang") or facts.get("language"),
        remarks=remarks,
    )
    return web_page.with_elements(book, root)


def _front_matter(lines: Sequence[str]) -> tuple[dict[str, str], Sequence[str]]:
    """The facts between two lines of dashes (YAML) or plus signs (TOML) before the text, and the text."""
    opening = lines[0].strip() if lines else ""
    if opening not in _FRONT:
        return {}, lines
    sign, closing = _FRONT[opening]
    end = next((number for number, line in enumerate(lines[1:200], 1) if line.strip() in closing), None)
    if end is None or not all(sign in line or not line.strip() or line[0] in " -#[]" for line in lines[1:end]):
        return {}, lines
    matches = (_FACT.fullmatch(line.strip()) for line in lines[1:end])
    return {match[1].lower(): match[2].strip(" \"'") for match in matches if match}, lines[end + 1 :]


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # imported for a Markdown document
    from markdown_it.rules_block import blockquote, list_block, reference

    def unwritten(*_: object) -> str:
        return ""

    parser = MarkdownIt("commonmark").enable("strikethrough").disable("code")  # books indent paragraphs
    blocks, inline = parser.block.ruler, parser.inline.ruler
    blocks.at("blockquote", _bounded(blockquote), {"alt": ["paragraph", "reference", "blockquote", "list"]})
    blocks.at("list", _bounded(list_block), {"alt": ["paragraph", "reference", "blockquote"]})
    blocks.at("reference", _kept(reference))
    blocks.before("reference", "note", _note, {"alt": ["paragraph"]})
    blocks.at("table", _table, {"alt": ["paragraph", "reference"]})
    blocks.enable("table")
    inline.before("link", "pronunciation", _pronunciation)
    inline.before("link", "note", _note_reference)
    # A list of links would be taken for a table of contents.
    for name in ("image", "link_open", "link_close"):
        parser.add_render_rule(name, unwritten)
    return parser


def _hidden(text: str) -> str:
    return f'<div hidden="">{html.escape(text)}</div>\n' if text else ""


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _bounded(rule: BlockRule) -> BlockRule:
    def bounded(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        if state.level >= _DEEPEST or _YEAR.match(_line(state, start)):
            return False
        return rule(state, start, end, silent)

    return bounded


def _kept(rule: BlockRule) -> BlockRule:
    """A definition of a link, which is an omission."""

    def kept(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        found = rule(state, start, end, silent)
        if found and not silent:
            state.push("html_block", "", 0).content = _hidden(state.getLines(start, state.line, 0, False))
        return found

    return kept


def _element(state: StateBlock, name: str, text: str, attributes: dict[str, str | int | float]) -> None:
    state.push(f"{name}_open", name, 1).attrs = attributes
    inline = state.push("inline", "", 0)
    inline.content, inline.children = text, []
    state.push(f"{name}_close", name, -1)


def _note(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A footnote and the indented lines after it."""
    found = _NOTE.match(_line(state, start))
    if found is None or silent:
        return found is not None
    state.line = start + 1
    while state.line < end and (state.isEmpty(state.line) or state.sCount[state.line] - state.blkIndent >= 4):
        state.line += 1
    text = " ".join(_line(state, number) for number in range(start, state.line))
    _element(state, "aside", text[found.end() :].strip(), {"class": "footnote"})
    return True


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Rows of any length, each cell as an item; and a single row between two bars."""
    first = _line(state, start)
    ruled = start + 1 < end and "|" in first and _RULED.fullmatch(_line(state, start + 1)) is not None
    if silent or not (ruled or _ROW.fullmatch(first)):
        return ruled or _ROW.fullmatch(first) is not None
    state.line = start + 1
    while ruled and state.line < end and "|" in _line(state, state.line):
        state.line += 1
    for number in range(start, state.line):
        row = _line(state, number).strip()
        for cell in re.split(r"(?<!\\)\|", row.strip("|")) if not {*row} <= {*" |:-"} else ():
            _element(state, "li", cell.strip(), {})
    return True


def _pronunciation(state: StateInline, silent: bool) -> bool:
    found = PRONUNCIATION_MARKUP.match(state.src, state.pos)
    if found:
        state.pending += "" if silent else found[0]
        state.pos = found.end()
    return found is not None


def _note_reference(state: StateInline, silent: bool) -> bool:
    found = _REFERENCE.match(state.src, state.pos)
    if found is None or found[1] not in state.env["notes"]:
        return False
    if not silent:
        state.push("html_inline", "", 0).content = f'<a epub:type="noteref">{html.escape(found[0])}</a>'
    state.pos = found.end()
    return True
