"""`[voice:bm_george]` in a text: from there on another voice speaks. `[/voice]` or `[voice:default]`: the first one.

`[rate:0.8]`, where it is asked for: from there on to the next rate or voice the voice speaks slower than its own pace.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from kokoro_server.errors import InvalidSSML, KokoroError
from kokoro_server.text.script import Cast, Run
from kokoro_server.text.traced import Traced

# With a round bracket after it, it is a link, or a pronunciation of the word "voice".
VOICE_TAG = re.compile(r"\[(?:voice:(?P<name>[^\[\]\n]*)|/voice)\](?!\()", re.IGNORECASE)
RATE_TAG = re.compile(
    r"\[(?:voice:(?P<name>[^\[\]\n]*)|/voice|rate:\s*(?P<rate>\d{1,9}(?:\.\d{1,9})?)\s*)\](?!\()", re.IGNORECASE
)
MIN_SPEED, MAX_SPEED = 0.25, 4.0


def has_tags(text: str, *, rates: bool = False) -> bool:
    return "[" in text and (RATE_TAG if rates else VOICE_TAG).search(text) is not None


def speed_at(speed: float, rate: float) -> float:
    """The speed of a voice that speaks at this rate, within what is possible."""
    return min(max(speed * rate, MIN_SPEED), MAX_SPEED)


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


def split(run: Run, cast: Cast, speed: float | None = None, *, rates: bool = False) -> list[Run]:
    """The text between the tags of a run, each in its voice. Raises what the cast raises, with the tag's place.

    `speed` is the request's; the voice of the run may have a pace of its own. `rates`: there may be tags of rates.
    """
    text, delivery, found, start = run.text.text, run.delivery, list[Run](), 0
    own_speed = run.delivery.speed  # of the voice that speaks
    for match in (RATE_TAG if rates else VOICE_TAG).finditer(text):
        found.append(Run(run.text.between(start, match.start()), delivery))
        start = match.end()
        if rates and match["rate"]:
            delivery = replace(delivery, speed=speed_at(own_speed, float(match["rate"])))
            continue
        name, delivery = voice_of(match), run.delivery
        own_speed = delivery.speed
        if name is not None:
            try:
                voice = cast.voice(name)
            except KokoroError as error:
                place = run.text.starts[match.start()]
                raise type(error)(f"{match[0][:60]!r} at character {place}: {error.message}", field="text") from None
            if speed is not None:
                own_speed = speed_at(speed, cast.rates.get(name, 1.0))
            delivery = replace(delivery, voice=voice, language=cast.language_of(voice), speed=own_speed)
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
