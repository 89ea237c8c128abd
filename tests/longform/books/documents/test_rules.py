"""What of HTML is read, what is left out, and what it is told as."""

from __future__ import annotations

import pytest

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import read_document
from tests.longform.books.documents.whole import check, html_text, read_aloud


def read(body: str, head: str = "", attributes: str = "") -> Book:
    markup = f"<html {attributes}><head>{head}</head><body>{body}</body></html>"
    book = read_document("page.html", markup.encode())
    check(book, html_text(markup))
    return book


@pytest.mark.parametrize(
    ("markup", "kind"),
    [
        ('Alice<a epub:type="noteref" href="#n">1</a>', "footnote reference"),
        ('Alice<a role="doc-noteref" href="#n">*</a>', "footnote reference"),
        ('Alice<span class="fnanchor">[12]</span>', "footnote reference"),
        ('<aside epub:type="footnote"><p>A note.</p></aside>Alice', "footnote"),
        ('<div class="footnotes"><ol><li>A note.</li></ol></div>Alice', "footnote"),
        ('<section role="doc-endnotes"><p>A note.</p></section>Alice', "footnote"),
        ('Al<span epub:type="pagebreak">12</span>ice', "page number"),
        ('Al<span class="pagenum">[Pg 12]</span>ice', "page number"),
        ("Al[Pg 12]ice", "page number"),
        ('<nav><a href="/">Home</a></nav>Alice', "navigation"),
        ('<nav epub:type="toc"><a href="#a">One</a></nav>Alice', "table of contents"),
        ('<ul><li><a href="#a">One</a></li><li><a href="#b">Two</a> 3</li><li><a href="#c">Four</a></li></ul>Alice',
         "table of contents"),
        ('<section epub:type="index"><p>Alice, 12</p></section>Alice', "index"),
        ('<section role="doc-index"><p>Alice, 12</p></section>Alice', "index"),
        ('<section epub:type="copyright-page"><p>All rights</p></section>Alice', "copyright page"),
        ('<div class="pg-boilerplate" id="pg-header">The Project</div>Alice', "licence"),
        ("<p hidden>Not this</p>Alice", "hidden text"),
        ('<p aria-hidden="true">Not this</p>Alice', "hidden text"),
        ('<p style="color: red; display:none">Not this</p>Alice', "hidden text"),
        ("<script>if (a < b) run('<p>no</p>')</script>Alice", "script"),
        ("<style>p { color: red }</style>Alice", "style sheet"),
        ("<ruby>Alice<rp>(</rp><rt>ありす</rt><rp>)</rp></ruby>", "ruby annotation"),
        ('Alice<video src="a">No video here</video>', "text instead of media"),
    ],
)  # fmt: skip
def test_left_out(markup: str, kind: str) -> None:
    book = read(markup)
    assert read_aloud(book) == "Alice"
    assert kind in {omission.kind for omission in book.omissions}


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<figure><img alt='A cat'><figcaption>Dinah</figcaption></figure>", "Dinah"),
        ("The 1<sup>st</sup> of May, e = mc<sup>2</sup>", "The 1st of May, e = mc²"),
        ('See <a href="#ch2">this</a>, <a href="#ch2">2</a> <p id="ch2">2 pages.</p>', "See this, 2 2 pages."),
        ('Read <sup><a href="#s1">1</a></sup><h2 id="s1">1 First</h2><p>All of it.</p>', "Read 1 1 First All of it."),
        ('A note<sup><a href="#x">1</a></sup>', "A note1"),  # which is nowhere
        ("An array[1] and [2]", "An array[1] and [2]"),
        ('<div class="note"><p>Nota bene.</p></div>', "Nota bene."),
        ('<ul><li><a href="#a">One</a> of those who ran</li><li>Two</li></ul>', "One of those who ran Two"),
        ("<p>One<p>Two<br>Three<div>Four</div>Five", "One Two Three Four Five"),
        ("<b>bold</b>face <i>it</i>alic", "boldface italic"),
        ("Tom &amp; Jerry &lt;3 &eacute;&#8212;&unknown;", "Tom & Jerry <3 é—&unknown;"),
        ("a < b and 3 <4> c", "a < b and 3 <4> c"),
        ("hy\u00adphen\u00adated", "hyphenated"),
        ("<table><tr><td>One</td><td>Two</td></tr></table>", "One Two"),
        ("<details><summary>More</summary>Text</details>", "More Text"),
        ("<made-up>Unknown elements</made-up>", "Unknown elements"),
    ],
)  # fmt: skip
def test_read(markup: str, text: str) -> None:
    assert read_aloud(read(markup)) == text


@pytest.mark.parametrize(
    "markup",
    [
        '<p>Text<sup><a id="r" href="#n">1</a></sup></p><p id="n">1. The note.</p>',
        '<p>Text<a href="#n"><sup>1</sup></a></p><p><a id="n"></a>1 The note.</p>',
        '<p>Text<a href="#n" id="r">[1]</a></p><div><p><a id="n" href="#r">[1]</a> The note.</p></div>',
        '<p>Text<sup id="r"><a href="#n">1</a></sup></p><ol><li id="n"><p>The note. <a href="#r">↩</a></p></li></ol>',
        '<p>Text<a href="#n">*</a></p><p class="footnote" id="n">* The note.</p>',
        '<p>Text<a href="#n">[a]</a></p><dl><dt id="n">[a]</dt><dd>The note.</dd></dl>',
    ],
)
def test_notes_by_their_links(markup: str) -> None:
    book = read(markup)
    assert read_aloud(book) == "Text"
    assert {"footnote", "footnote reference"} == {omission.kind for omission in book.omissions}


def test_a_paragraph_that_begins_with_a_marker_is_not_its_note() -> None:
    markup = '<p><a id="r" href="#n">[1]</a> Text.</p><p><a id="n" href="#r">[1]</a> The note.</p>'
    assert read_aloud(read(markup)) == "Text."


def test_kinds_breaks_and_languages() -> None:
    book = read(
        "<h1>Title</h1><p>Long.</p><hr><p lang='fr'>Où est ma chatte?</p><p>Say <i lang='fr'>oui</i>.</p>"
        "<p><i lang='fr'>Oui.</i></p><blockquote><p>Quoted</p></blockquote><ul><li>Item</li></ul>"
        "<p>How doth the little<br>crocodile</p><p>* * *</p><p>End.</p>",
        attributes='lang="en"',
    )
    assert book.language == "en"
    found = [(p.text, p.kind, p.language, p.after_break) for p in book.chapters[0].blocks]
    assert found == [
        ("Title", "heading", None, False),
        ("Long.", "paragraph", None, False),
        ("Où est ma chatte?", "paragraph", "fr", True),
        ("Say oui.", "paragraph", None, False),
        ("Oui.", "paragraph", "fr", False),
        ("Quoted", "quotation", None, False),
        ("Item", "item", None, False),
        ("How doth the little", "verse", None, False),
        ("crocodile", "verse", None, False),
        ("End.", "paragraph", None, True),
    ]


def test_chapters_by_headings() -> None:
    book = read(
        "<p>Before.</p><h1>Part</h1><h2>CHAPTER I</h2><h3>Down</h3><p>Text.</p><h2>CHAPTER II</h2><p>More.</p>"
        "<h5>Small</h5>",
        "<title>A book</title><meta name='author' content='Somebody'>",
    )
    assert (book.title, book.authors) == ("A book", ("Somebody",))
    assert [(chapter.level, chapter.title, len(chapter.blocks)) for chapter in book.chapters] == [
        (1, "A book", 1),
        (1, "Part", 1),
        (2, "CHAPTER I. Down", 3),
        (2, "CHAPTER II", 3),
    ]
