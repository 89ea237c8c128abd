"""The elements of SSML: how each changes the delivery of its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kokoro_server import languages
from kokoro_server.errors import KokoroError, UnknownLanguage
from kokoro_server.languages import Language
from kokoro_server.text.script import Cast, Delivery
from kokoro_server.text.ssml import values
from kokoro_server.text.ssml.document import Tag

LANGUAGE = "xml:lang"
# The attributes of each element; those that name a namespace may be on any.
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "speak": ("version", LANGUAGE, "xml:base", "xsi:schemaLocation"),
    "p": (LANGUAGE,),
    "s": (LANGUAGE,),
    "break": ("time", "strength"),
    "emphasis": ("level",),
    "lang": (LANGUAGE,),
    "phoneme": ("ph", "alphabet"),
    "prosody": ("rate", "pitch", "volume"),
    "say-as": ("interpret-as", "format"),
    "sub": ("alias",),
    "voice": ("name", LANGUAGE),
}
_REQUIRED = {"lang": LANGUAGE, "phoneme": "ph", "say-as": "interpret-as", "sub": "alias", "voice": "name"}
MIN_SPEED, MAX_SPEED = 0.25, 4.0
MAX_PITCH = 12.0  # semitones
MIN_VOLUME, MAX_VOLUME = -60.0, 20.0  # dB


def check(tag: Tag) -> None:
    """Raises InvalidSSML for an element or an attribute that is not known, and for one that is missing."""
    if tag.name not in ATTRIBUTES:
        raise tag.error(f"unknown tag; known are {' '.join(ATTRIBUTES)}")
    known = ATTRIBUTES[tag.name]
    for name in tag.attributes:
        if name not in known and name != "xmlns" and not name.startswith("xmlns:"):
            allowed = f"it may have {' '.join(known)}"
            raise tag.error(f"unknown attribute {name[:40]!r}; {allowed}")
    if (needed := _REQUIRED.get(tag.name)) and needed not in tag.attributes:
        raise tag.error(f"{needed} is missing")


def value(tag: Tag, name: str, parse: Callable[[str], float | None], allowed: str) -> float | None:
    """The number that an attribute stands for; None if it is absent."""
    if name not in tag.attributes:
        return None
    text = tag.attributes[name].strip()
    if (number := parse(text)) is None:
        raise wrong(tag, name, allowed)
    return number


def wrong(tag: Tag, name: str, allowed: str) -> KokoroError:
    return tag.error(f"{name}={tag.attributes[name][:40]!r} must be {allowed}")


def delivery(tag: Tag, outer: Delivery, cast: Cast) -> Delivery:
    """The delivery of an element's text, within an element with the `outer` delivery."""
    if tag.name == "prosody":
        return _prosody(tag, outer)
    if tag.name == "emphasis":
        level = tag.attributes.get("level", "moderate")
        if level not in values.EMPHASES:
            raise wrong(tag, "level", f"one of {' '.join(values.EMPHASES)}")
        rate, louder = values.EMPHASES[level]
        return _bounded(tag, replace(outer, speed=outer.speed * rate, volume=outer.volume + louder))
    if tag.name == "voice":
        outer = _voice(tag, outer, cast)
    return replace(outer, language=_language(tag, cast)) if LANGUAGE in tag.attributes else outer


def _prosody(tag: Tag, outer: Delivery) -> Delivery:
    rate = value(tag, "rate", values.rate, f"{' '.join(values.RATES)}, or as 80%, +20% or 0.8")
    pitch = value(tag, "pitch", values.pitch, f"{' '.join(values.PITCHES)}, or as +2st or -10%")
    volume = value(tag, "volume", values.volume, f"{' '.join(values.VOLUMES)}, as +6dB, or from 0 to 100")
    inner = replace(
        outer,
        speed=outer.speed * (1.0 if rate is None else rate),
        pitch=outer.pitch + (pitch or 0.0),
        volume=outer.volume + (volume or 0.0),
    )
    return _bounded(tag, inner)


def _bounded(tag: Tag, inner: Delivery) -> Delivery:
    """Raises InvalidSSML for a value that the model cannot speak, together with those of the elements around it."""
    if not MIN_SPEED <= inner.speed <= MAX_SPEED:
        raise tag.error(f"the speed is {inner.speed:g} in all; {MIN_SPEED:g} to {MAX_SPEED:g} are possible")
    if not -MAX_PITCH <= inner.pitch <= MAX_PITCH:
        raise tag.error(f"the pitch is {inner.pitch:+g} st in all; -{MAX_PITCH:g} to +{MAX_PITCH:g} are possible")
    if not (MIN_VOLUME <= inner.volume <= MAX_VOLUME or inner.volume == values.VOLUMES["silent"]):
        raise tag.error(f"the volume is {inner.volume:+g} dB in all; {MIN_VOLUME:g} to +{MAX_VOLUME:g} are possible")
    return inner


def _voice(tag: Tag, outer: Delivery, cast: Cast) -> Delivery:
    """A voice speaks its own language, whatever the elements around it say: most documents name one at their top."""
    try:
        voice = cast.voice(tag.attributes["name"].strip())
    except KokoroError as error:
        raise tag.error(error.message) from None
    return replace(outer, voice=voice, language=cast.language_of(voice))


def _language(tag: Tag, cast: Cast) -> Language:
    try:
        return languages.parse(tag.attributes[LANGUAGE], cast.languages)
    except UnknownLanguage:
        raise wrong(tag, LANGUAGE, f"one of {languages.known_codes(cast.languages)}") from None
