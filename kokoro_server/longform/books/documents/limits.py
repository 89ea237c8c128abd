"""What a document may be: it may come from strangers."""

from __future__ import annotations

MIB = 1 << 20
MAX_DOCUMENT = 256 * MIB  # as a file, with all its pictures
MAX_TEXT = 32 * MIB  # of a book, with its markup: eight times the Bible
MAX_COVER = 16 * MIB
MAX_MEMBERS = 20_000  # files of an archive
MAX_RATIO = 200  # how much smaller an archive may have made a file; texts shrink to a tenth
RATIO_FROM = MIB  # smaller files may shrink as they like
MAX_ELEMENTS = 600_000  # of a book
MAX_DEPTH = 100  # of elements in each other; in HTML, those that are deeper become siblings
MAX_PAGES = 20_000  # of a PDF
