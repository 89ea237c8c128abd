"""An EPUB 3 with media overlays: each sentence of the book is highlighted while it plays."""

from __future__ import annotations

import re
import uuid
import zipfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.longform.books.assembly import SpokenChapter
from kokoro_server.longform.books.book import BlockKind, Book
from kokoro_server.longform.books.passages import BETWEEN_BLOCKS
from kokoro_server.text.splitter import sentences

MADE_AT = (2000, 1, 1, 0, 0, 0)  # fixed: the same book makes the same file
MODIFIED = "2000-01-01T00:00:00Z"
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
ACTIVE = "-epub-media-overlay-active"
ELEMENTS: dict[BlockKind, tuple[str, str]] = {
    "heading": ("<h2>", "</h2>"),
    "paragraph": ("<p>", "</p>"),
    "verse": ('<p class="verse">', "</p>"),
    "quotation": ("<blockquote><p>", "</p></blockquote>"),
    "item": ('<p class="item">', "</p>"),
}
STYLE = (
    f".{ACTIVE} {{ background-color: #fd6; color: #000; }}\n.verse {{ margin: 0; }}\n.item {{ margin-left: 1em; }}\n"
)
COVERS = {"image/jpeg": "cover.jpg", "image/png": "cover.png", "image/gif": "cover.gif", "image/svg+xml": "cover.svg"}
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
CONTAINER = f"""{DECLARATION}<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""


@dataclass(frozen=True, slots=True)
class _Page:
    """A chapter: its text, with an id on each spoken sentence, and the times of these."""

    name: str
    title: str
    level: int
    language: str
    body: str
    begins: tuple[float, ...]  # seconds from the chapter's start, of s1, s2, ...
    seconds: float


def write_read_along(path: Path, book: Book, chapters: Sequence[SpokenChapter], sounds: Sequence[Path]) -> None:
    """`sounds` are mp3 files of the chapters."""
    pages = [_page(book, chapter) for chapter in chapters]
    cover = COVERS.get(book.cover.media_type) if book.cover else None
    with zipfile.ZipFile(path, "w") as archive:
        _add(archive, "mimetype", b"application/epub+zip", zipfile.ZIP_STORED)  # must be first and uncompressed
        _add(archive, "META-INF/container.xml", CONTAINER.encode())
        _add(archive, "EPUB/package.opf", _package(book, pages, cover).encode())
        _add(archive, "EPUB/nav.xhtml", _xhtml("Contents", book.language or "en", _contents(pages)).encode())
        _add(archive, "EPUB/style.css", STYLE.encode())
        if book.cover and cover:
            _add(archive, f"EPUB/{cover}", book.cover.content, zipfile.ZIP_STORED)
        for page, sound in zip(pages, sounds, strict=True):
            _add(archive, f"EPUB/{page.name}.xhtml", _xhtml(page.title, page.language, page.body).encode())
            _add(archive, f"EPUB/{page.name}.smil", _overlay(page).encode())
            with archive.open(zipfile.ZipInfo(f"EPUB/{page.name}.mp3", MADE_AT), "w") as file, sound.open("rb") as mp3:
                while data := mp3.read(1 << 20):
                    file.write(data)


def _add(archive: zipfile.ZipFile, name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> None:
    archive.writestr(zipfile.ZipInfo(name, MADE_AT), content, method)


def _page(book: Book, chapter: SpokenChapter) -> _Page:
    places = [word.char_start for word in chapter.words]
    body, begins, start = list[str](), list[float](), 0
    for block in chapter.chapter.blocks:
        opening, closing = ELEMENTS[block.kind]
        parts, done = [opening], 0
        for sentence in sentences(block.text):
            parts.append(_escaped(block.text[done : sentence.start]))
            first = bisect_left(places, start + sentence.start)
            if first < len(places) and places[first] < start + sentence.end:
                begins.append(chapter.words[first].start)
                parts.append(f'<span id="s{len(begins)}">{_escaped(sentence.text)}</span>')
            else:  # not spoken
                parts.append(_escaped(sentence.text))
            done = sentence.end
        body.append("".join((*parts, _escaped(block.text[done:]), closing)))
        start += len(block.text) + len(BETWEEN_BLOCKS)
    return _Page(
        name=f"c{chapter.number + 1:04}",
        title=chapter.title,
        level=chapter.chapter.level,
        language=chapter.chapter.language or book.language or "en",
        body="\n".join(body),
        begins=tuple(begins),
        seconds=chapter.samples / SAMPLE_RATE,
    )


def _escaped(text: str) -> str:
    return escape(NOT_IN_XML.sub("", text), {'"': "&quot;"})


def _xhtml(title: str, language: str, body: str) -> str:
    tag = _escaped(language)
    return (
        f'{DECLARATION}<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" '
        f'xmlns:epub="http://www.idpf.org/2007/ops" lang="{tag}" xml:lang="{tag}">\n'
        f"<head><title>{_escaped(title)}</title>"
        f'<link rel="stylesheet" type="text/css" href="style.css"/></head>\n<body>\n{body}\n</body>\n</html>\n'
    )


def _contents(pages: Sequence[_Page]) -> str:
    """The navigation, nested like the chapters."""
    lines, depths = ['<nav epub:type="toc" id="toc"><h1>Contents</h1><ol>'], list[int]()
    for page in pages:
        entry = f'<li><a href="{page.name}.xhtml">{_escaped(page.title)}</a>'
        if depths and page.level > depths[-1]:
            lines.append("<ol>")
            depths.append(page.level)
        else:
            while len(depths) > 1 and page.level < depths[-1]:
                lines.append("</li></ol>")
                depths.pop()
            lines.append("</li>" if depths else "")
            depths = depths or [page.level]
        lines.append(entry)
    return "\n".join((*lines, "</li></ol>" * len(depths), "</nav>"))


def _overlay(page: _Page) -> str:
    """Each sentence lasts until the next one begins, so that playback has no holes."""
    begins = (0.0, *page.begins[1:], page.seconds)
    pars = (
        f'<par id="p{number}"><text src="{page.name}.xhtml#s{number}"/>'
        f'<audio src="{page.name}.mp3" clipBegin="{begins[number - 1]:.3f}s" clipEnd="{begins[number]:.3f}s"/></par>'
        for number in range(1, len(page.begins) + 1)
    )
    return (
        f'{DECLARATION}<smil xmlns="http://www.w3.org/ns/SMIL" xmlns:epub="http://www.idpf.org/2007/ops" '
        'version="3.0">\n'
        f'<body><seq id="seq" epub:textref="{page.name}.xhtml" epub:type="bodymatter">\n'
        + "\n".join(pars)
        + "\n</seq></body>\n</smil>\n"
    )


def _package(book: Book, pages: Sequence[_Page], cover: str | None) -> str:
    name = "\n".join((book.title, *book.authors, *(page.body for page in pages)))
    metadata = [
        f'<dc:identifier id="id">urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, name)}</dc:identifier>',
        f"<dc:title>{_escaped(book.title) or 'Book'}</dc:title>",
        f"<dc:language>{_escaped(book.language or 'en')}</dc:language>",
        *(f"<dc:creator>{_escaped(author)}</dc:creator>" for author in book.authors),
        f'<meta property="dcterms:modified">{MODIFIED}</meta>',
        f'<meta property="media:active-class">{ACTIVE}</meta>',
        f'<meta property="media:duration">{sum(page.seconds for page in pages):.3f}s</meta>',
        *(f'<meta property="media:duration" refines="#{p.name}-o">{p.seconds:.3f}s</meta>' for p in pages),
    ]
    manifest = [
        '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>',
        '<item id="style" href="style.css" media-type="text/css"/>',
    ]
    if cover and book.cover:
        kind = book.cover.media_type
        manifest.append(f'<item id="cover" href="{cover}" media-type="{kind}" properties="cover-image"/>')
    manifest += (item for page in pages for item in _items(page.name))
    spine = (f'<itemref idref="{page.name}"/>' for page in pages)
    lines = "\n".join
    return (
        f'{DECLARATION}<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">\n'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">\n{lines(metadata)}\n</metadata>\n'
        f"<manifest>\n{lines(manifest)}\n</manifest>\n<spine>\n{lines(spine)}\n</spine>\n</package>\n"
    )


def _items(name: str) -> Iterator[str]:
    yield f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml" media-overlay="{name}-o"/>'
    yield f'<item id="{name}-o" href="{name}.smil" media-type="application/smil+xml"/>'
    yield f'<item id="{name}-a" href="{name}.mp3" media-type="audio/mpeg"/>'
