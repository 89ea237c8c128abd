"""Word's documents."""

from __future__ import annotations

import pytest

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.documents import read_document
from tests.longform.books.library import zipped

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
STYLES = f"""<w:styles {W}>
<w:docDefaults><w:rPrDefault><w:rPr><w:lang w:val="en-US"/></w:rPr></w:rPrDefault></w:docDefaults>
<w:style w:styleId="Titel"><w:name w:val="Title"/></w:style>
<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
<w:style w:styleId="Eigene"><w:name w:val="My heading"/><w:basedOn w:val="berschrift1"/></w:style>
<w:style w:styleId="Verz1"><w:name w:val="toc 1"/></w:style>
<w:style w:styleId="Zitat"><w:name w:val="Quote"/></w:style></w:styles>"""


def paragraph(text: str, style: str = "", more: str = "") -> str:
    named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{named}<w:r><w:t xml:space="preserve">{text}</w:t></w:r>{more}</w:p>'


def docx(body: str) -> bytes:
    notes = (
        f'<w:footnotes {W}><w:footnote w:id="2"><w:p><w:r><w:t>The note.</w:t></w:r></w:p></w:footnote></w:footnotes>'
    )
    core = (
        '<cp:coreProperties xmlns:cp="c" xmlns:dc="d"><dc:title>A Small Book</dc:title><dc:creator>Jane Doe; Jim Roe'
        "</dc:creator></cp:coreProperties>"
    )
    return zipped(
        {
            "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": STYLES,
            "word/footnotes.xml": notes,
            "word/header1.xml": f"<w:hdr {W}>{paragraph('A Small Book, page')}</w:hdr>",
            "docProps/core.xml": core,
        }
    )


def test_a_book() -> None:
    note = '<w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:t>.</w:t></w:r>'
    box = "<w:r><w:pict><w:txbxContent>" + paragraph("In a box.") + "</w:txbxContent></w:pict></w:r>"
    french = '<w:p><w:r><w:rPr><w:lang w:val="fr-FR"/></w:rPr><w:t>Où est ma chatte?</w:t></w:r></w:p>'
    body = "".join(
        (
            paragraph("A Small Book", "Titel"),
            paragraph("Chapter one 3", "Verz1"),
            paragraph("Chapter one", "berschrift1"),
            paragraph("It was a ", "", "<w:r><w:t>long</w:t></w:r><w:r><w:tab/><w:t>day</w:t></w:r>" + note),
            paragraph("Text", "", "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>" + box),
            "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>unseen</w:t></w:r></w:p>",
            french,
            paragraph("Quoted.", "Zitat"),
            "<w:tbl><w:tr><w:tc>" + paragraph("In a table.") + "</w:tc></w:tr></w:tbl>",
            paragraph("Chapter two", "Eigene"),
            paragraph("Tom &amp; Jerry.", "", "<w:r><w:br/><w:t>Second line</w:t></w:r>"),
        )
    )
    book = read_document("book.docx", docx(body))
    assert (book.title, book.authors, book.language) == ("A Small Book", ("Jane Doe", "Jim Roe"), "en-US")
    assert [(chapter.level, chapter.title) for chapter in book.chapters] == [
        (1, "A Small Book"),
        (2, "Chapter one"),
        (2, "Chapter two"),
    ]
    assert [(p.kind, p.text, p.language) for p in book.chapters[1].blocks] == [
        ("heading", "Chapter one", None),
        ("paragraph", "It was a long day.", None),
        ("paragraph", "Text", None),
        ("paragraph", "In a box.", None),
        ("paragraph", "Où est ma chatte?", "fr-FR"),
        ("quotation", "Quoted.", None),
        ("paragraph", "In a table.", None),
    ]
    assert [(p.kind, p.text) for p in book.chapters[2].blocks[1:]] == [
        ("verse", "Tom & Jerry."),
        ("verse", "Second line"),
    ]
    assert {(omission.kind, omission.text) for omission in book.omissions} == {
        ("table of contents", "Chapter one 3"),
        ("footnote", "The note."),
        ("deleted text", "gone"),
        ("hidden text", "unseen"),
        ("running head", "A Small Book, page"),
    }


def test_another_archive_is_no_docx() -> None:
    with pytest.raises(UnreadableDocument, match=r"book\.docx: it is not a \.docx"):
        read_document("book.docx", zipped({"a.txt": "a"}))


@pytest.mark.parametrize("prefix", ["ns0:", ""])
def test_word_s_namespace_under_another_name(prefix: str) -> None:
    """As Python's ElementTree writes it, and others."""
    name = f"xmlns:{prefix[:-1]}" if prefix else "xmlns"
    markup = (
        f'<document {name}="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><body><p><r><t>One.</t></r></p>'
        "<p><r><t>Two.</t><br/><t>Three a: b.</t></r></p></body></document>"
    )
    if prefix:
        markup = markup.replace("</", "\0").replace("<", f"<{prefix}").replace("\0", f"</{prefix}")
    book = read_document("book.docx", zipped({"word/document.xml": markup}))
    assert [block.text for block in book.chapters[0].blocks] == ["One.", "Two.", "Three a: b."]
