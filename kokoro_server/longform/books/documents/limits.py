"""Limits of documents, which may come from strangers."""

from __future__ import annotations

MIB = 1 << 20
MAX_DOCUMENT = 256 * MIB  # a file with all its pictures
MAX_TEXT = 32 * MIB  # of a book, with its markup: eight times the Bible
MAX_COVER = 16 * MIB
MAX_MEMBERS = 20_000  # files of an archive
MAX_RATIO = 200  # of a file to its compressed size; texts shrink to a tenth
RATIO_FROM = MIB  # smaller files may have any ratio
MAX_ELEMENTS = 600_000  # of a book
MAX_DEPTH = 100  # of nested elements; in HTML, deeper ones become siblings
MAX_PAGES = 20_000  # of a PDF
