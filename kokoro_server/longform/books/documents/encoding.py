"""Decodes text: by its byte order mark, its declaration, as UTF-8, in an East Asian encoding, or as Windows-1252."""

from __future__ import annotations

import codecs
import re

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.documents.limits import MAX_TEXT, MIB

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(
    rb"""<(?:\?xml|meta)\b[^>]{0,500}?(?:encoding|charset)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.I
)
_ESCAPED = re.compile("[\udc80-\udcff]")  # bytes that are no UTF-8
_ASCII, _SPACE = bytes(range(128)), b" \t\r\n"
_HIRAGANA = re.compile("[\u3041-\u3096]")
_PAIR = re.compile(rb"[\x81-\xfe][\x40-\xfe]")
_TEXT_PER_ZERO = 1000  # characters: a file with more zero bytes is no text
_HEAD = 4096  # bytes in which an encoding is declared
# Encodings of text. Python has other codecs, some of which expand a little input into much.
_TEXT = re.compile(r"(?:utf|ascii|us-ascii|iso|latin|cp|windows|koi8|mac|big5|gb|hz|shift|sjis|euc|johab|ks|tis)", re.I)


def decode_document(content: bytes, *, declared: bool = False) -> tuple[str, tuple[str, ...]]:
    """The text of a whole document, and remarks. Raises UnreadableDocument if it is too large."""
    if len(content) > MAX_TEXT:
        raise UnreadableDocument(f"its text is larger than {MAX_TEXT // MIB} MiB")
    text, guessed = decode(content, declared=declared)
    silent = " and does not say what it is" if declared else ""
    return text, (f"it is not UTF-8{silent}: read as {guessed}",) if guessed else ()


def decode(content: bytes, *, declared: bool = False) -> tuple[str, str | None]:
    """The text, and the encoding if it was guessed: neither declared nor UTF-8."""
    text, guessed = _decode(content, declared)
    if text.count("\0") > len(text) // _TEXT_PER_ZERO:
        raise UnreadableDocument("it is not text: it has zero bytes; texts may be in UTF-8, UTF-16 or Windows-1252")
    return text.replace("\0", ""), guessed


def _decode(content: bytes, declared: bool) -> tuple[str, str | None]:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content.decode(encoding, "replace").removeprefix("\ufeff"), None
    if declared and (match := _DECLARED.search(content[:_HEAD])):
        encoding = match[1].decode("ascii")
        if _TEXT.match(encoding) and not encoding.lower().startswith(("utf-16", "utf-32", "utf_16")):
            text = _strictly(content, "cp1252" if _is_latin(encoding) else encoding)
            if text is not None:
                return text, None
    if byte_order := _utf_16(content):
        return content.decode(byte_order, "replace"), "UTF-16"
    if (text := _strictly(content, "utf-8")) is not None:
        return text, None
    if (text := _mostly_utf8(content)) is not None:
        return text, "UTF-8 and, where it is none, Windows-1252"
    if eastern := _eastern(content):
        return eastern
    if (text := _strictly(content, "cp1252")) is not None:
        return text, "Windows-1252"
    return content.decode("latin-1"), "ISO 8859-1"


def _utf_16(content: bytes) -> str | None:
    """The codec of UTF-16 without a mark: one byte of most pairs is zero."""
    if content.count(0) <= len(content) // _TEXT_PER_ZERO:
        return None
    even, odd = content[::2].count(0), content[1::2].count(0)
    return "utf-16-le" if odd > 10 * even else "utf-16-be" if even > 10 * odd else None


def _eastern(content: bytes) -> tuple[str, str] | None:
    """Text and encoding of Japanese, found by its hiragana, or Chinese. Western texts are mostly ASCII."""
    if 3 * len(content.translate(None, _ASCII)) < len(content.translate(None, _SPACE)):
        return None
    for encoding, name in (("cp932", "Shift JIS"), ("euc_jp", "EUC-JP")):
        text = _strictly(content, encoding)
        if text and len(_HIRAGANA.findall(text)) > len(text) // 10:
            return text, name
    pairs = _PAIR.findall(content)
    # The usual characters of GB have a high second byte; of Big5's, about half.
    is_gb = sum(pair[1] > 0xA0 for pair in pairs) > 0.9 * len(pairs)
    encoding, name = ("gb18030", "GB 18030") if is_gb else ("cp950", "Big5")
    text = _strictly(content, encoding)
    return (text, name) if text else None


def _strictly(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except (LookupError, UnicodeDecodeError):
        return None


def _mostly_utf8(content: bytes) -> str | None:
    """UTF-8 with a few bytes of Windows-1252. Hardly any bytes of a text in Windows-1252 look like UTF-8."""
    text = content.decode("utf-8", "surrogateescape")
    broken = len(_ESCAPED.findall(text))
    whole = len(text) - broken - len(text.encode("ascii", "ignore"))
    return _ESCAPED.sub(_as_windows, text) if whole > broken else None


def _as_windows(match: re.Match[str]) -> str:
    return match[0].encode("utf-8", "surrogateescape").decode("cp1252", "replace")


def _is_latin(encoding: str) -> bool:
    """Whether to decode as Windows-1252, like browsers: it is what most texts mean by Latin-1."""
    return encoding.lower().replace("_", "-") in ("iso-8859-1", "latin-1", "latin1", "us-ascii", "ascii")
