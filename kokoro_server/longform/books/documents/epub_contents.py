"""The table of contents of an EPUB: the nav of EPUB 3, the NCX of EPUB 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kokoro_server.longform.books.documents import omissions
from kokoro_server.longform.books.documents.archive import resolve
from kokoro_server.longform.books.documents.elements import Element
from kokoro_server.longform.books.documents.flow import ChapterBegin


@dataclass(frozen=True, slots=True)
class ContentsEntry:
    title: str
    level: int  # from 1
    file: str
    fragment: str


def from_nav(root: Element, name: str) -> list[ContentsEntry]:
    toc = next((nav for nav in root.all("nav") if "toc" in omissions.types(nav)), Element(""))
    return list(_items(toc.find("ol"), name, 1))


def _items(listing: Element, name: str, level: int) -> Iterator[ContentsEntry]:
    for item in listing.elements():
        if item.local != "li":
            continue
        for child in item.elements():
            if child.local in ("ol", "ul"):
                # An entry without a link, such as a part without a page, only makes these deeper.
                yield from _items(child, name, level + 1)
                continue
            link = child if child.local == "a" else child.first("a")
            if link is not None and link.get("href") and link.text():
                yield ContentsEntry(link.text(), level, *resolve(link.get("href"), name))


def from_ncx(root: Element, name: str) -> list[ContentsEntry]:
    return list(_points(root.find("navMap"), name, 1))


def _points(parent: Element, name: str, level: int) -> Iterator[ContentsEntry]:
    for point in parent.elements():
        if point.local != "navPoint":
            continue
        label = next((child for child in point.elements() if child.local == "navLabel"), None)
        content = next((child for child in point.elements() if child.local == "content"), None)
        if label is not None and content is not None and label.text():
            yield ContentsEntry(label.text(), level, *resolve(content.get("src"), name))
        yield from _points(point, name, level + 1)


def starts(entries: list[ContentsEntry], files: dict[str, Element]) -> dict[str, dict[str, ChapterBegin]]:
    """Where chapters start, by file and fragment. An unknown fragment means the beginning of its file."""
    found: dict[str, dict[str, ChapterBegin]] = {}
    fragments = {name: _fragments(root) for name, root in files.items()}
    for entry in entries:
        if entry.file in files:
            fragment = entry.fragment if entry.fragment in fragments[entry.file] else ""
            in_file, begin = found.setdefault(entry.file, {}), ChapterBegin(entry.title, entry.level)
            before = in_file.setdefault(fragment, begin)
            # A part and its first chapter at one place become one chapter with both names.
            if before is not begin and entry.title not in before.title.split(": "):
                in_file[fragment] = replace(before, title=f"{before.title}: {entry.title}")
    return found


def _fragments(root: Element) -> set[str]:
    return {element.get("id") or element.get("name") for element in root.walk() if element.attributes}
