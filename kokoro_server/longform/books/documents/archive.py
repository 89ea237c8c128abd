"""Reads the files of an EPUB or a .docx, which are ZIP archives. Nothing is unpacked to a disk."""

from __future__ import annotations

import posixpath
import struct
import unicodedata
import zipfile
import zlib
from io import BytesIO
from urllib.parse import unquote

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.documents.limits import MAX_MEMBERS, MAX_RATIO, MAX_TEXT, MIB, RATIO_FROM

_ENCRYPTED = 0x1  # a flag of a file
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, ValueError, OSError)


class Archive:
    def __init__(self, content: bytes) -> None:
        # Each entry of the directory begins with these bytes; zipfile reads all of them.
        if content.count(b"PK\x01\x02") > MAX_MEMBERS:
            raise UnreadableDocument(f"it holds more than {MAX_MEMBERS} files")
        try:
            self._zip = zipfile.ZipFile(BytesIO(content))
        except _BROKEN as error:
            raise UnreadableDocument(f"it is not a ZIP archive, as EPUB and .docx are, or broken: {error}") from error
        self._members = {member.filename: member for member in self._zip.infolist()}
        self._folded = {_folded(name): name for name in reversed(self._members)}
        for name in reversed(self._members):
            if utf8 := _as_utf8(name):
                self._folded.setdefault(_folded(utf8), name)
        self._text_left = MAX_TEXT

    def find(self, name: str) -> str | None:
        """The archive's spelling of a name; None for a file that it does not hold."""
        return name if name in self._members else self._folded.get(_folded(name))

    def names(self) -> list[str]:
        return list(self._members)

    def text(self, name: str) -> bytes:
        """A file of the text or structure. Their total size is bounded."""
        content = self.read(name, self._text_left)
        self._text_left -= len(content)
        return content

    def read(self, name: str, at_most: int) -> bytes:
        found = self.find(name)
        if found is None:
            raise UnreadableDocument(f"{name!r} is missing in it")
        member = self._members[found]
        if member.flag_bits & _ENCRYPTED:
            raise UnreadableDocument("it is encrypted with a password; only open documents can be read")
        too_large = member.file_size > at_most
        if too_large or member.file_size > max(RATIO_FROM, MAX_RATIO * member.compress_size):
            raise self._too_large(name, at_most)
        try:
            with self._zip.open(member) as file:
                content = file.read(at_most + 1)
        except (*_BROKEN, RuntimeError) as error:
            raise UnreadableDocument(f"{name!r} in it is broken: {error}") from error
        if len(content) > at_most:
            raise self._too_large(name, at_most)
        return content

    def _too_large(self, name: str, at_most: int) -> UnreadableDocument:
        return UnreadableDocument(
            f"{name!r} in it is too large, or far larger than its compressed form: at most {MAX_TEXT // MIB} MiB of"
            f" text are read ({at_most // MIB} MiB were left), and files of at most {MAX_RATIO} times that form"
        )


def _folded(name: str) -> str:
    """Equal for names that differ in case, or in how accents are encoded."""
    return unicodedata.normalize("NFC", name).casefold()


def _as_utf8(name: str) -> str | None:
    """The name, if it is in UTF-8 without the flag for that, and zipfile read it in the encoding of old archives."""
    if name.isascii():
        return None
    try:
        return name.encode("cp437").decode()
    except UnicodeError:
        return None


def resolve(reference: str, base: str) -> tuple[str, str]:
    """The name and the fragment that a reference in the file `base` means. The name is empty outside the archive."""
    path, _, fragment = reference.strip().partition("#")
    fragment = unquote(fragment)
    if not path:
        return base, fragment
    if ":" in path.split("/", 1)[0]:
        return "", fragment
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(base), unquote(path.partition("?")[0])))
    return joined.lstrip("/").removeprefix("../"), fragment
