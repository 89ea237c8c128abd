"""`python -m tests.longform.books.library FOLDER`: write the books that tests read, made of texts in the public domain.

Alice's Adventures in Wonderland (an edition of 1916) and The War of the Worlds become EPUBs with all that such files
have: nested contents, chapters in one file and over several, notes, page numbers, pictures. Hamlet is plain text.
"""

from __future__ import annotations

import io
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"
CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
    '<rootfile full-path="OPS/package.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
NOTE = "It was the month of May, and the fourth day of it."
ENDNOTE = "Dinah was the name of a cat that the author had met."
LINKED_NOTE = "A race without rules, as committees run it."
COPYRIGHT = "All rights have ended. First published by nobody."
SUPPLEMENT = "A letter that belongs to no chapter."
CAPTION = "Alice meets the White Rabbit."


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def picture(red: int, green: int, blue: int, size: int = 64) -> bytes:
    """A PNG of one colour."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = (b"\0" + bytes((red, green, blue)) * size) * size
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    ends = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + ends


def page(body: str, attributes: str = "") -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"'
        f' xmlns:epub="http://www.idpf.org/2007/ops" xml:lang="en"><head><title>A page</title></head>'
        f"<body{attributes}>{body}</body></html>"
    )


def package(metadata: str, manifest: Mapping[str, str], spine: str, version: str = "3.0", guide: str = "") -> str:
    items = "".join(f'<item id="{name}" {attributes}/>' for name, attributes in manifest.items())
    return (
        '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" unique-identifier="id"'
        f' version="{version}">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:opf="http://www.idpf.org/2007/opf">'
        f'<dc:identifier id="id">urn:test</dc:identifier>{metadata}</metadata><manifest>{items}</manifest>'
        f"{spine}{guide}</package>"
    )


def epub(files: Mapping[str, str | bytes]) -> bytes:
    return zipped({"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER, **files})


def alice() -> bytes:
    """EPUB 3: several chapters in a file, one chapter over two, notes of three kinds."""
    source = (FIXTURES / "alice.html").read_text(encoding="utf-8")
    chapters = [f"<h2{part}" for part in source.split("<h2")[1:]]
    chapters[0] = (
        chapters[0]
        .replace("very sleepy and stupid)", 'very sleepy and stupid)<a epub:type="noteref" href="#note1">1</a>', 1)
        .replace(
            "</p>",
            f'</p><figure><img src="rabbit.png" alt="A rabbit"/><figcaption>{CAPTION}</figcaption></figure>',
            1,
        )
    )
    chapters[0] += f'<aside epub:type="footnote" id="note1"><p>{NOTE}</p></aside>'
    chapters[1] = chapters[1].replace("</p>", '<sup><a id="ref2" href="notes.xhtml#note2">2</a></sup></p>', 1)
    chapters[2] = chapters[2].replace("</p>", '<a id="ref3" href="#note3">[3]</a></p>', 1)
    chapters[2] += f'<hr/><p id="note3"><a href="#ref3">[3]</a> {LINKED_NOTE}</p>'
    half = chapters[3].index("<p>", len(chapters[3]) // 2)
    titles = [re.sub(r"<[^>]+>", "", re.search(r"<h2[^>]*>(.*?)</h2>", chapter, re.S)[1]) for chapter in chapters]
    places = ("story1.xhtml#chapter1", "story1.xhtml#chapter2", "story2.xhtml", "story3.xhtml#chapter4")
    links = "".join(f'<li><a href="{place}">{title}</a></li>' for place, title in zip(places, titles, strict=True))
    nav = (
        '<nav epub:type="toc"><h1>Contents</h1><ol><li><a href="title.xhtml">Alice’s Adventures in Wonderland</a>'
        f'<ol>{links}</ol></li><li><a href="notes.xhtml">Notes</a></li></ol></nav>'
        '<nav epub:type="landmarks" hidden=""><ol><li><a href="story1.xhtml">Start</a></li></ol></nav>'
    )
    notes = (
        f'<section epub:type="endnotes"><h2>Notes</h2><ol><li id="note2"><p>{ENDNOTE} <a href="story1.xhtml#ref2">↩</a>'
        "</p></li></ol></section>"
    )
    files = {
        "cover": page('<img src="cover.png" alt="Cover"/><p>A cover</p>', ' epub:type="cover"'),
        "title": page("<h1>Alice’s Adventures<br/>in Wonderland</h1><p>Lewis Carroll</p>"),
        "copyright": page(f'<section epub:type="copyright-page"><p>{COPYRIGHT}</p></section>'),
        "nav": page(nav),
        "story1": page(chapters[0] + chapters[1]),
        "story2": page(chapters[2]),
        "story3": page(chapters[3][:half]),
        "story4": page(chapters[3][half:]),
        "letter": page(f"<p>{SUPPLEMENT}</p>"),
        "notes": page(notes),
    }
    manifest = {name: f'href="{name}.xhtml" media-type="application/xhtml+xml"' for name in files}
    manifest["nav"] += ' properties="nav"'
    manifest["picture"] = 'href="cover.png" media-type="image/png" properties="cover-image"'
    manifest["rabbit"] = 'href="rabbit.png" media-type="image/png"'
    metadata = (
        "<dc:title>Alice’s Adventures in Wonderland</dc:title><dc:language>en-GB</dc:language>"
        '<dc:creator id="c1">Lewis Carroll</dc:creator><dc:creator id="c2">Gordon Robinson</dc:creator>'
        '<meta refines="#c1" property="role">aut</meta><meta refines="#c2" property="role">ill</meta>'
    )
    linear = {"letter": ' linear="no"'}
    spine = "".join(f'<itemref idref="{name}"{linear.get(name, "")}/>' for name in files)
    return epub(
        {
            "OPS/package.opf": package(metadata, manifest, f"<spine>{spine}</spine>"),
            **{f"OPS/{name}.xhtml": content for name, content in files.items()},
            "OPS/cover.png": picture(180, 20, 60),
            "OPS/rabbit.png": picture(250, 250, 250),
        }
    )


def war_of_the_worlds() -> bytes:
    """EPUB 2: parts and chapters in files of their own, an NCX, a guide."""
    source = (FIXTURES / "war_of_the_worlds.html").read_text(encoding="utf-8")
    names = re.findall(r"<!-- (\w+) -->", source)
    parts = dict(zip(names, re.split(r"<!-- \w+ -->", source)[1:], strict=True))
    points = [
        ("part1", "Part 1 - The Coming of the Martians", ("c1", "The Eve of the War"), ("c2", "The Falling Star")),
        ("part2", "Part 2 - The Earth Under the Martians", ("c3", "Under Foot")),
    ]
    ncx = "".join(
        _point(name, title, "".join(_point(*chapter) for chapter in chapters)) for name, title, *chapters in points
    )
    manifest = {name: f'href="{name}.xml" media-type="application/xhtml+xml"' for name in ("cover", "toc", *parts)}
    manifest |= {
        "ncx": 'href="book.ncx" media-type="application/x-dtbncx+xml"',
        "image": 'href="mars.png" media-type="image/png"',
    }
    spine = "".join(f'<itemref idref="{name}"/>' for name in ("cover", "toc", *parts))
    guide = '<guide><reference type="cover" href="cover.xml"/><reference type="toc" href="toc.xml"/></guide>'
    metadata = (
        "<dc:title>The War of the Worlds</dc:title><dc:language>en</dc:language>"
        '<dc:creator opf:role="aut">H. G. Wells</dc:creator><meta name="cover" content="image"/>'
    )
    listing = "".join(f'<p><a href="{name}.xml">{title}</a></p>' for name, title, *_ in points)
    return epub(
        {
            "OPS/package.opf": package(metadata, manifest, f'<spine toc="ncx">{spine}</spine>', "2.0", guide),
            "OPS/book.ncx": f'<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{ncx}</navMap></ncx>',
            "OPS/cover.xml": page('<img src="mars.png" alt="Mars"/>'),
            "OPS/toc.xml": page(f"<h2>Table of Contents</h2>{listing}"),
            **{f"OPS/{name}.xml": page(body) for name, body in parts.items()},
            "OPS/mars.png": picture(190, 60, 20),
        }
    )


def _point(name: str, title: str, inner: str = "") -> str:
    return (
        f'<navPoint id="{name}"><navLabel><text>{title}</text></navLabel><content src="{name}.xml"/>{inner}</navPoint>'
    )


def hamlet() -> bytes:
    return (FIXTURES / "hamlet.txt").read_bytes()


BOOKS = {"alice.epub": alice, "war_of_the_worlds.epub": war_of_the_worlds, "hamlet.txt": hamlet}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in BOOKS.items():
        (folder / name).write_bytes(make())


if __name__ == "__main__":
    main()
