"""Puts the words of claims into a text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import regex

from kokoro_server.text.spoken.matching import Claim
from kokoro_server.text.traced import Traced

_HAN = regex.compile(r"\p{Han}")


def apply(claims: Iterable[Claim], text: Traced) -> Traced:
    """`text` with the words of its `claims`. Words are set off with a space from the words beside them."""
    parts, end = list[Traced](), 0
    last = ""  # the last character so far
    spoken = False  # whether that character is a claim's
    for claim in claims:
        plain = text.between(end, claim.start)
        if plain.text:
            if spoken and _touch(last, text.text[end : end + 2]):
                parts.append(_space(plain.starts[0]))
            parts.append(plain)
            last, spoken = plain.text[-1], False
        if claim.words:
            source = text.between(claim.start, claim.end)
            words = f" {claim.words}" if _touch(last, claim.words) else claim.words
            parts.append(source.replaced(words))
            last, spoken = words[-1], True
        end = claim.end
    rest = text.between(end, len(text.text))
    if rest.text and spoken and _touch(last, rest.text[:2]):
        parts.append(_space(rest.starts[0]))
    return Traced.join((*parts, rest)) if end else text


def _touch(before: str, after: str) -> bool:
    """Whether a character and the text after it would be read as one word."""
    if _HAN.match(before) and _HAN.match(after):
        return False  # Chinese has no spaces, and within a word they would change its tones
    opens = after[0] in "(“" or (after[0] == '"' and after[1:2].isalnum())
    return bool(before) and (_in_word(before) or before in ",;:!?)”") and (_in_word(after[0]) or opens)


def _in_word(character: str) -> bool:
    """Whether a letter, a digit, or a vowel of Hindi that is written on the letter before it."""
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _space(position: int) -> Traced:
    return Traced(" ", (position,), (position,))
