"""The pages of the documentation, their examples, headings and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.servers import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUNNABLE = {"bash": "bash", "sh": "bash", "shell": "bash", "console": "bash", "python": "python", "py": "python"}
_FENCE = re.compile(r"(?P<indent> *)(?P<marks>`{3,}|~{3,})(?P<language>[\w+-]*)")
_REASON = re.compile(r"<!-- (?P<kind>not run|run by): (?P<words>.+?) -->")
_HEADING = re.compile(r"#{1,6} +(.+?)(?: +#+)?$")
_LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Example:
    """A fenced block. A comment directly before it may say why it is not run, or what runs it instead."""

    page: Path
    line: int
    language: str
    code: str
    not_run: str = ""
    run_by: str = ""

    def __str__(self) -> str:
        return f"{name(self.page)}:{self.line}"


def blocks(page: Path) -> Iterator[Example]:
    """All fenced blocks, in whatever language."""
    before = ""
    opened: re.Match[str] | None = None
    start, body = 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if opened:
            if line.strip() == opened["marks"]:
                comment = _REASON.fullmatch(before.strip())
                said = {comment["kind"].replace(" ", "_"): comment["words"]} if comment else {}
                code = "".join(f"{each.removeprefix(opened['indent'])}\n" for each in body)
                yield Example(page, start, opened["language"], code, **said)
                opened, before = None, ""
            else:
                body.append(line)
        elif found := _FENCE.match(line):
            opened, start, body = found, number, []
        elif line.strip():
            before = line
    assert opened is None, f"{name(page)}:{start}: the block is not closed"


def examples(page: Path) -> list[Example]:
    return [block for block in blocks(page) if block.language in RUNNABLE]


def _prose(page: Path) -> Iterator[tuple[int, str]]:
    """The lines outside of fenced blocks."""
    marks = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if marks:
            marks = "" if line.strip() == marks else marks
        elif found := _FENCE.match(line):
            marks = found["marks"]
        else:
            yield number, line


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code browsers and the site make them."""
    found = set[str]()
    for _, line in _prose(page):
        if heading := _HEADING.fullmatch(line):
            words = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
            count = sum(each == slug or re.fullmatch(rf"{re.escape(slug)}_\d+", each) is not None for each in found)
            found.add(f"{slug}_{count}" if count else slug)
    return found


def links(page: Path) -> Iterator[tuple[int, str]]:
    """The links and images of a page that lead to other places of the repository."""
    for number, line in _prose(page):
        for target in _LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if not re.match(r"[a-z][a-z+.-]*:", target):
                yield number, target
