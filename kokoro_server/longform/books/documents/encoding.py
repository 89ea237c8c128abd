"""Bytes to text: by a byte order mark, what it declares, as UTF-8, as East Asia wrote it, or as Windows in the west."""

from __future__ import annotations

import codecs
import re

from kokoro_server.errors import UnreadableDocument

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
_TEXT_PER_ZERO = 1000  # characters: what has more zero bytes is no text
_HEAD = 4096  # bytes in which an encoding is declared
# Codecs of Python that are no encodings of text, or that may make much of little.
_TEXT = re.compile(r"(?:utf|ascii|us-ascii|iso|latin|cp|windows|koi8|mac|big5|gb|hz|shift|sjis|euc|johab|ks|tis)", re.I)


def decode(content: bytes, *, declared: bool = False) -> tuple[str, str | None]:
    """The text, and the encoding that was guessed, if none was told and it is not UTF-8."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _checked(content.decode(encoding, "replace").removeprefix("\ufeff")), None
    if declared and (match := _DECLARED.search(content[:_HEAD])):
        encoding = match[1].decode("ascii")
        if _TEXT.match(encoding) and not encoding.lower().startswith(("utf-16", "utf-32", "utf_16")):
            try:
                return _checked(content.decode("cp1252" if _is_latin(encoding) else encoding)), None
            except (LookupError, UnicodeDecodeError):
                pass
    if byte_order := _utf_16(content):
        return _checked(content.decode(byte_order, "replace")), "UTF-16"
    try:
        return _checked(content.decode("utf-8")), None
    except UnicodeDecodeError:
        pass
    if (mostly := _mostly_utf8(content)) is not None:
        return _checked(mostly), "UTF-8 and, where it is none, Windows-1252"
    if eastern := _eastern(content):
        return _checked(eastern[0]), eastern[1]
    try:
        return _checked(content.decode("cp1252")), "Windows-1252"
    except UnicodeDecodeError:
        return _checked(content.decode("latin-1")), "ISO 8859-1"


def _utf_16(content: bytes) -> str | None:
    """Which UTF-16 it is, of what is no other text: on one side of all pairs of bytes there are zeros."""
    if content.count(0) <= len(content) // _TEXT_PER_ZERO:
        return None
    even, odd = content[::2].count(0), content[1::2].count(0)
    return "utf-16-le" if odd > 10 * even else "utf-16-be" if even > 10 * odd else None


def _eastern(content: bytes) -> tuple[str, str] | None:
    """Japanese, by its hiragana, or Chinese; and the name of the encoding. In western ones, most bytes are ASCII."""
    if 3 * len(content.translate(None, _ASCII)) < len(content.translate(None, _SPACE)):
        return None
    for encoding, name in (("cp932", "Shift JIS"), ("euc_jp", "EUC-JP")):
        text = _strictly(content, encoding)
        if text and len(_HIRAGANA.findall(text)) > len(text) // 10:
            return text, name
    pairs = _PAIR.findall(content)
    # Of GB, the usual characters have two bytes of this kind; of Big5, some half of them have.
    is_gb = sum(pair[1] > 0xA0 for pair in pairs) > 0.9 * len(pairs)
    encoding, name = ("gb18030", "GB 18030") if is_gb else ("cp950", "Big5")
    text = _strictly(content, encoding)
    return (text, name) if text else None


def _strictly(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return None


def _mostly_utf8(content: bytes) -> str | None:
    """UTF-8 but for a few bytes, which are of Windows-1252; in a text of that, hardly any bytes look like UTF-8."""
    text = content.decode("utf-8", "surrogateescape")
    broken = len(_ESCAPED.findall(text))
    whole = len(text) - broken - len(text.encode("ascii", "ignore"))
    return _ESCAPED.sub(_as_windows, text) if whole > broken else None


def _as_windows(match: re.Match[str]) -> str:
    return match[0].encode("utf-8", "surrogateescape").decode("cp1252", "replace")


def _is_latin(encoding: str) -> bool:
    """As browsers do: what says Latin-1 is mostly Windows-1252, which has more characters."""
    return encoding.lower().replace("_", "-") in ("iso-8859-1", "latin-1", "latin1", "us-ascii", "ascii")


def _checked(text: str) -> str:
    if text.count("\0") > len(text) // _TEXT_PER_ZERO:
        raise UnreadableDocument("it is not text: it has zero bytes; texts may be in UTF-8, UTF-16 or Windows-1252")
    return text.replace("\0", "")
