"""The contents of the voices that a request names. Audio that is kept is found again by them, not by their names."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256

from kokoro_server.voices.book import VoiceSnapshot
from kokoro_server.voices.names import OPENAI_VOICES

_WORD = re.compile(r"[A-Za-z0-9_]+")  # every name begins with one


class VoiceFinder:
    """Finds the names of voices in requests."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = defaultdict[str, list[str]](list)  # by their first word
        for name in {*names, *OPENAI_VOICES}:
            if word := _WORD.match(name):
                self._names[word[0]].append(name)

    def names_in(self, request: object) -> set[str]:
        """The names that occur in the texts of a request: those of all voices that it uses, and perhaps a few more."""
        found = set[str]()
        for text in _texts(request):
            plain = html.unescape(text) if "&" in text else text  # SSML may write a name with entities
            for word in {*_WORD.findall(plain)} & self._names.keys():
                # In a blend, the name of a model may stand before its first voice alone.
                found.update(name for name in self._names[word] if all(part in plain for part in name.split("/")))
        return found


class VoiceContents:
    """Of voices that do not change."""

    def __init__(self, voices: VoiceSnapshot) -> None:
        self._voices = voices
        self._finder = VoiceFinder(voices.names())
        self._digests: dict[str, str] = {}

    def fingerprint(self, request: object) -> str:
        """Differs if a voice that the request uses sounds different, or reads another language. May read packs.

        So it does if another model speaks under the name of that one.
        """
        return sha256("".join(map(self._digest, sorted(self._finder.names_in(request)))).encode()).hexdigest()[:16]

    def _digest(self, name: str) -> str:
        if name not in self._digests:
            self._digests[name] = self._content(name)
        return self._digests[name]

    def _content(self, name: str) -> str:
        known = self._voices.names()
        if name not in known and OPENAI_VOICES.get(name) not in known:
            return ""  # one of OpenAI's, for a voice that is not here
        pack, gain = self._voices.pack(self._voices.canonical(name)), self._voices.gain(name)
        model = self._voices.of_model(name)
        version = f" {model.version}" if model else ""
        return f"{name} {self._voices.language(name)} {gain} {sha256(pack.tobytes()).hexdigest()}{version}\n"


def _texts(request: object) -> Iterator[str]:
    if isinstance(request, str):
        yield request
    elif isinstance(request, dict):
        for name, value in request.items():
            yield from _texts(name)
            yield from _texts(value)
    elif isinstance(request, list | tuple):
        for value in request:
            yield from _texts(value)
