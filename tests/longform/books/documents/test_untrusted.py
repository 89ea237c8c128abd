"""Documents of strangers: whatever they hold, they are read or refused, soon and without more memory than they need."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import pytest

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.documents import elements, read_book, read_document
from kokoro_server.longform.books.documents.limits import MAX_MEMBERS
from tests.growth import is_at_most
from tests.longform.books.documents.test_docx import docx, paragraph
from tests.longform.books.documents.whole import read_aloud
from tests.longform.books.library import CONTAINER, epub, package, page, zipped

METADATA = "<dc:title>T</dc:title><dc:language>en</dc:language>"
SPINE = '<spine><itemref idref="a"/></spine>'
ITEM = {"a": 'href="a.xhtml" media-type="application/xhtml+xml"'}


def small(files: dict[str, str | bytes] | None = None, text: str | bytes = "", **manifest: str) -> bytes:
    opf = package(METADATA, ITEM | manifest, SPINE)
    return epub({"OPS/package.opf": opf, "OPS/a.xhtml": text or page("<p>Alice</p>"), **(files or {})})


def refused(name: str, content: bytes, why: str) -> None:
    with pytest.raises(UnreadableDocument, match=why) as raised:
        read_document(name, content)
    assert raised.value.status == 422
    assert name in raised.value.message


def test_what_can_be_read_is_told(tmp_path: Path) -> None:
    refused("book.mobi", b"", r"\.epub, \.txt, \.md")
    refused("book", b"", r"\.epub")
    with pytest.raises(UnreadableDocument, match="No such file"):
        read_book(tmp_path / "none.epub")
    (tmp_path / "some.TXT").write_text("Alice")
    assert read_book(tmp_path / "some.TXT").title == "some"


def test_empty_ones() -> None:
    refused("a.txt", b"", "no text")
    refused("a.html", b"<p hidden>x</p>", "it has no text, only text that is not read aloud: hidden text")
    refused("a.epub", b"", "not a ZIP archive")
    refused("a.txt", bytes(1000), "not text")
    refused("a.epub", zipped({"a": "b"}), "not an EPUB")


def test_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    refused("bomb.epub", small(text=b"<p>" + b" " * (33 << 20)), "too large")
    refused("bomb.epub", small(text=b"<p>" + b"a" * (8 << 20)), "far larger than its compressed form")
    refused("bomb.epub", small() + b"PK\x01\x02" * MAX_MEMBERS, "more than 20000 files")
    monkeypatch.setattr(elements, "MAX_ELEMENTS", 1000)
    refused("tags.html", b"<i>" * 1001, "elements of markup")


def test_a_size_that_lies_is_not_believed() -> None:
    content = bytearray(small(text=page("<p>" + "Alice " * 50_000 + "</p>")))
    place = content.rindex(b"OPS/a.xhtml") - 46 + 24  # the length in the directory
    content[place : place + 4] = (10).to_bytes(4, "little")
    with contextlib.suppress(UnreadableDocument):
        assert len(read_aloud(read_document("a.epub", bytes(content)))) <= 10


@pytest.mark.parametrize("where", ["opf", "text", "html"])
def test_entities(where: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    for declared in (
        f'<!ENTITY l0 "ha">{laughs}',
        f'<!ENTITY l11 SYSTEM "file://{secret}">',
        '<!ENTITY % l11 "x"> %l11;',
    ):
        doctype = f"<!DOCTYPE x [{declared}]>"
        text = f"{doctype}<html><body><p>&l11; Alice</p></body></html>"
        if where == "opf":
            opf = doctype + package(METADATA, ITEM, SPINE)
            content = epub({"OPS/package.opf": opf, "OPS/a.xhtml": page("Alice")})
        else:
            content = small(text=text) if where == "text" else text.encode()
        refused("a.html" if where == "html" else "a.epub", content, "entity")
    known = '<!DOCTYPE html [<!ENTITY nbsp "&#160;">]><html><body><p>Alice&nbsp;is&eacute;</p></body></html>'
    assert read_aloud(read_document("a.html", known.encode())) == "Alice isé"


def test_names_that_lead_outside() -> None:
    opf = package(METADATA, {"a": 'href="../../../etc/passwd" media-type="application/xhtml+xml"'}, SPINE)
    refused("a.epub", epub({"OPS/package.opf": opf}), "no text in its reading order")
    opf = package(METADATA, {"a": 'href="file:///etc/passwd" media-type="application/xhtml+xml"'}, SPINE)
    refused("a.epub", epub({"OPS/package.opf": opf}), "no text in its reading order")
    found = zipped(
        {"META-INF/container.xml": CONTAINER, "OPS/package.opf": package(METADATA, ITEM, SPINE), "ops/A.xhtml": "Alice"}
    )
    assert read_aloud(read_document("a.epub", found)) == "Alice"


def test_a_file_that_is_missing_is_told() -> None:
    manifest = ITEM | {"b": 'href="b%20b.xhtml" media-type="application/xhtml+xml"'}
    opf = package(METADATA, manifest, '<spine><itemref idref="a"/><itemref idref="b"/><itemref idref="c"/></spine>')
    book = read_document("a.epub", epub({"OPS/package.opf": opf, "OPS/a.xhtml": "Alice"}))
    assert [(o.kind, o.text) for o in book.omissions] == [
        ("file that is missing", "OPS/b b.xhtml"),
        ("file that is missing", "c"),
    ]


def test_a_cover_that_no_player_shows_is_told() -> None:
    cover = 'href="c.svg" media-type="image/svg+xml" properties="cover-image"'
    book = read_document("a.epub", small({"OPS/c.svg": "<svg/>"}, c=cover))
    assert book.cover is None
    assert book.remarks == ("its cover is left out: image/svg+xml is no picture that players show",)


def test_locked_ones() -> None:
    def encrypted(algorithm: str) -> dict[str, str | bytes]:
        data = f'<EncryptedData><EncryptionMethod Algorithm="{algorithm}"/></EncryptedData>'
        return {"META-INF/encryption.xml": f"<encryption>{data}</encryption>"}

    refused("a.epub", small(encrypted("http://www.w3.org/2001/04/xmlenc#aes128-cbc")), "DRM")
    refused("a.epub", small({"META-INF/license.lcpl": "{}"}), "DRM")
    assert read_document("a.epub", small(encrypted("http://www.idpf.org/2008/embedding"))).chapters
    stream = io.BytesIO(small())
    content = bytearray(stream.getvalue())
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            content[member.header_offset + 6] |= 1
    for place in range(len(content) - 4):
        if content[place : place + 4] == b"PK\x01\x02":
            content[place + 8] |= 1
    refused("a.epub", bytes(content), "password")


def test_broken_archives() -> None:
    content = small()
    for end in range(10, len(content), 97):
        with pytest.raises(UnreadableDocument):
            read_document("a.epub", content[:end])
    for place in range(30, len(content), 41):
        broken = bytearray(content)
        broken[place] ^= 0xFF
        with contextlib.suppress(UnreadableDocument):
            assert read_document("a.epub", bytes(broken)).chapters


def test_what_is_deep_is_read() -> None:
    depth = 5_000
    nested = "<div>" * depth + "Alice" + "</div>" * depth + "end"
    assert read_aloud(read_document("a.html", nested.encode())) == "Alice end"
    lists = "<ul><li>" * depth + "Alice"
    assert read_aloud(read_document("a.html", lists.encode())) == "Alice"
    nested = "<w:sdt>" * depth + paragraph("Alice") + "</w:sdt>" * depth
    refused("a.docx", docx(nested), "100 deep")
    assert read_aloud(read_document("a.md", (">" * depth + " Alice").encode())).endswith("Alice")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("a.html", "<a b='"),
        ("a.html", '<a ">"'),
        ("a.html", "<!--"),
        ("a.html", "<![CDATA["),
        ("a.html", "<a<"),
        ("a.html", "&#x;&amp"),
        ("a.html", "<p>[1]"),
        ("a.html", "<sup><a id=x href=#x>1</a>"),
        ("a.html", "<dl><dt id=y>[1]<dd><a href=#y>[1]</a>"),
        ("a.html", "<ul><li><a href=#x>a</a><li><a href=#y>a</a><li><a href=#z>a</a>"),
        ("a.html", "<table><tr><td>a"),
        ("a.html", "<h1>I</h1>"),
        ("a.txt", "_a "),
        ("a.txt", "."),
        ("a.txt", "* "),
        ("a.txt", "-\n"),
        ("a.txt", "[Footnote 1: "),
        ("a.txt", "[Footnote 1: a\n\n"),
        ("a.txt", "CONTENTS\n\nCHAPTER I\n\n"),
        ("a.txt", "I\n\nII\n\n"),
        ("a.txt", "well-\nknown\n"),
        ("a.txt", "[Illustration: a"),
        ("a.md", "*a"),
        ("a.md", "**_a"),
        ("a.md", "[a]("),
        ("a.md", "![a"),
        ("a.md", "`a``"),
        ("a.md", "> > "),
        ("a.md", "# a #"),
        ("a.md", "|-"),
        ("a.md", "- a\n"),
        ("a.md", "[^1]: a\n"),
        ("a.md", "\\*"),
    ],
)
def test_linear(name: str, unit: str) -> None:
    def read(count: int) -> None:
        with contextlib.suppress(UnreadableDocument):
            read_document(name, (unit * count).encode())

    count = 12_000 // len(unit)
    assert is_at_most(11, lambda: read(count), lambda: read(4 * count), harmless=0.2)  # 4 is linear, 16 quadratic
