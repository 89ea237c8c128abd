"""`[voice:bm_george]` in a text: from there on another voice speaks. `[/voice]` or `[voice:default]`: the first one."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from kokoro_server.errors import InvalidSSML, KokoroError
from kokoro_server.text.script import Cast, Run
from kokoro_server.text.traced import Traced

# With a round bracket after it, it is a link, or a pronunciation of the word "voice".
VOICE_TAG = re.compile(r"\[(?:voice:(?P<name>[^\[\]\n]*)|/voice)\](?!\()", re.IGNORECASE)


def has_tags(text: str) -> bool:
    return "[" in text and VOICE_TAG.search(text) is not None


def voice_of(match: re.Match[str]) -> str | None:
    """The name in a tag; None for the voice of the whole."""
    name = (match["name"] or "").strip()
    return name if name and name.lower() != "default" else None


def without_named(text: str) -> str:
    """The text of the first voice: without what stands after a tag that names another one."""
    if not has_tags(text):
        return text
    kept, start, named = list[str](), 0, False
    for match in VOICE_TAG.finditer(text):
        kept.append("" if named else text[start : match.start()])
        named, start = voice_of(match) is not None, match.end()
    return " ".join((*kept, "" if named else text[start:]))


def split(run: Run, cast: Cast) -> list[Run]:
    """The text between the tags of a run, each in its voice. Raises what the cast raises, with the tag's place."""
    text, delivery, found, start = run.text.text, run.delivery, list[Run](), 0
    for match in VOICE_TAG.finditer(text):
        found.append(Run(run.text.between(start, match.start()), delivery))
        name, delivery = voice_of(match), run.delivery
        if name is not None:
            try:
                voice = cast.voice(name)
            except KokoroError as error:
                place = run.text.starts[match.start()]
                raise type(error)(f"{match[0][:60]!r} at character {place}: {error.message}", field="text") from None
            delivery = replace(delivery, voice=voice, language=cast.language_of(voice))
        start = match.end()
    found.append(Run(run.text.between(start, len(text)), delivery))
    spoken = [each for each in found if each.text.text.strip()]
    goes_on = [_goes_on(*pair) for pair in pairwise(spoken)] + [run.continues]
    return [replace(each, continues=continues) for each, continues in zip(spoken, goes_on, strict=False)]


def refuse(text: Traced) -> None:
    """Raises InvalidSSML if there is a tag in the text of an SSML document."""
    if match := VOICE_TAG.search(text.text):
        place = text.starts[match.start()]
        raise InvalidSSML(f'{match[0][:60]!r} at character {place}: write <voice name="…">', field="text")


def _goes_on(run: Run, other: Run) -> bool:
    """Whether no line ends between them."""
    text, following = run.text.text, other.text.text
    gap = text[len(text.rstrip()) :] + following[: len(following) - len(following.lstrip())]
    return "\n" not in gap
