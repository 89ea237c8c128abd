"""A G2P double whose phonemes can be traced back to the text, letter by letter."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kokoro_server import languages
from kokoro_server.g2p.result import G2PResult, Token
from kokoro_server.languages import Language

SOUNDS = "abdefhijklmnopstuvwz"
MARKS = ';:,.!?—…()“”"'
LINK = re.compile(r"\[([^\]]+)\]\(/([^)]*)/\)")
TOKEN = re.compile(r"([A-Za-z0-9]+(?:[.,:'’-][A-Za-z0-9]+)*|[^\sA-Za-z0-9])(\s?)")


def fake_phonemes(text: str) -> str:
    """Two phonemes for each letter, so that offsets in the phonemes always differ from those in the text."""
    return "".join(SOUNDS[ord(character) % len(SOUNDS)] + "x" for character in text if character.isalnum())


class FakeG2P:
    """English comes with tokens, as from the real service. `calls` keeps the texts of each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def convert(self, texts: Sequence[str], language: Language, *, bulk: bool = False) -> list[G2PResult]:
        self.calls.append(list(texts))
        english = language in (languages.EN_US, languages.EN_GB)
        return [self._english(text) if english else G2PResult(self._other(text)) for text in texts]

    def _english(self, text: str) -> G2PResult:
        tokens = [token for part in self._parts(text) for token in part]
        return G2PResult("".join(token.phonemes + token.whitespace for token in tokens), tuple(tokens))

    def _parts(self, text: str) -> list[list[Token]]:
        parts, end = [], 0
        for link in LINK.finditer(text):
            parts.append(self._tokens(text[end : link.start()]))
            space = " " if text[link.end() : link.end() + 1] == " " else ""
            parts.append([Token(link[1], space, link[2])])
            end = link.end() + len(space)
        return [*parts, self._tokens(text[end:])]

    def _tokens(self, text: str) -> list[Token]:
        return [Token(match[1], match[2], self._sound(match[1])) for match in TOKEN.finditer(text)]

    def _sound(self, token: str) -> str:
        return token if token in MARKS else fake_phonemes(token)

    def _other(self, text: str) -> str:
        parts = re.findall(r"\w+|[^\w\s]", text)
        return re.sub(r" (?=[,.!?;:…])", "", " ".join(filter(None, map(self._sound, parts))))
