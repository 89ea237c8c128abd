"""Markdown."""

from __future__ import annotations

from kokoro_server.longform.books.documents import read_document
from tests.longform.books.documents.whole import read_aloud

BOOK = """\
---
title: "A Small Book"
author: Jane Doe
lang: en-GB
---

# Part one

Chapter the *first*
-------------------

It was a **very** _long_ day, snake_case and 2 * 3 * 4.[^1]\x20\x20
Second line with a [link](https://example.com "there"), `code * with * stars`
and ![a picture](cat.png) <b>HTML</b> &amp; \\*stars\\*.

> Quoted text
> goes on.

- One
- Two
  goes on
3. Three

| Head | Tail |
|------|-----:|
| a    | b    |

```
code = [1]
```

***

[Kokoro](/kˈOkəɹO/) speaks[^none].

[^1]: The note.
    And more of it.

[ref]: https://example.com

## Chapter the second ##

The end.
"""


def test_a_book() -> None:
    book = read_document("book.md", BOOK.encode())
    assert (book.title, book.authors, book.language) == ("A Small Book", ("Jane Doe",), "en-GB")
    assert [(chapter.level, chapter.title) for chapter in book.chapters] == [
        (1, "Part one"),
        (2, "Chapter the first"),
        (2, "Chapter the second"),
    ]
    assert [(block.kind, block.text) for block in book.chapters[1].blocks] == [
        ("heading", "Chapter the first"),
        ("verse", "It was a very long day, snake_case and 2 * 3 * 4."),
        ("verse", "Second line with a link, code * with * stars and HTML & *stars*."),
        ("quotation", "Quoted text goes on."),
        ("item", "One"),
        ("item", "Two goes on"),
        ("item", "Three"),
        ("item", "Head"),
        ("item", "Tail"),
        ("item", "a"),
        ("item", "b"),
        ("paragraph", "code = [1]"),
        ("paragraph", "[Kokoro](/kˈOkəɹO/) speaks[^none]."),
    ]
    assert book.chapters[1].blocks[-1].after_break
    assert read_aloud(book).endswith("Chapter the second The end.")
    told = {(omission.kind, omission.text) for omission in book.omissions}
    assert ("footnote", "The note. And more of it.") in told
    assert ("footnote reference", "[^1]") in told


def test_facts_before_the_text_in_toml() -> None:
    book = read_document("a.md", b'+++\ntitle = "A Book"\nauthor = "Jane Doe"\n[extra]\ndraft = true\n+++\n\nText.\n')
    assert (book.title, book.authors) == ("A Book", ("Jane Doe",))
    assert [block.text for block in book.chapters[0].blocks] == ["Text."]
    unclosed = read_document("a.md", b'+++\ntitle = "A Book"\n\nText.\n')
    assert [block.text for block in unclosed.chapters[0].blocks] == ['+++ title = "A Book"', "Text."]
