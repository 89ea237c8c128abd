"""A book that is made in seconds."""

from __future__ import annotations

from tests.longform.books import library


def small_book() -> bytes:
    """Three chapters, in which Alice says something, and a footnote."""
    note = '<aside epub:type="footnote"><p>It was a rabbit’s.</p></aside>'
    chapters = {
        "Down the Hole": f"<p>“Where am I?” said Alice. It was dark.</p>{note}",
        "Up <i>Again</i>": "<p>“I see,” said Alice.</p>",
        "Home": "<p>They were all at home.</p>",
    }
    files = {f"c{i}": library.page(f"<h2>{title}</h2>{text}") for i, (title, text) in enumerate(chapters.items())}
    links = "".join(f'<li><a href="c{i}.xhtml">{title}</a></li>' for i, title in enumerate(chapters))
    files["nav"] = library.page(f'<nav epub:type="toc"><ol>{links}</ol></nav>')
    manifest = {name: f'href="{name}.xhtml" media-type="application/xhtml+xml"' for name in files}
    manifest["nav"] += ' properties="nav"'
    metadata = "<dc:title>Holes &amp; Rabbits</dc:title><dc:language>en</dc:language><dc:creator>Nobody</dc:creator>"
    spine = "".join(f'<itemref idref="c{i}"/>' for i in range(len(chapters)))
    package = library.package(metadata, manifest, f"<spine>{spine}</spine>")
    return library.epub({"OPS/package.opf": package, **{f"OPS/{name}.xhtml": text for name, text in files.items()}})
