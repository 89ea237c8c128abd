"""SSML."""

from __future__ import annotations

from kokoro_server.text.script import Cast, Manner, Script


def script(text: str, manner: Manner, cast: Cast) -> Script:
    raise NotImplementedError
