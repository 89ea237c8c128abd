"""The values of attributes: rates, pitches, volumes and breaks, in numbers."""

from __future__ import annotations

import math
import re

from kokoro_server.text import pauses

RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.5}
PITCHES = {"x-low": -4.0, "low": -2.0, "medium": 0.0, "default": 0.0, "high": 2.0, "x-high": 4.0}  # semitones
VOLUMES = {
    "silent": -math.inf,
    "x-soft": -12.0,
    "soft": -6.0,
    "medium": 0.0,
    "default": 0.0,
    "loud": 4.0,
    "x-loud": 8.0,
}  # dB
BREAKS = {"none": None, "x-weak": 0.1, "weak": 0.25, "medium": 0.5, "strong": 0.75, "x-strong": 1.25}  # seconds
# Kokoro has no emphasis of its own: what is stressed is said slower and louder, what is reduced faster and softer.
EMPHASES = {"strong": (0.8, 3.0), "moderate": (0.9, 1.5), "none": (1.0, 0.0), "reduced": (1.1, -3.0)}  # rate, dB

_NUMBER = r"(?P<number>[0-9]{1,6}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})"
_RATE = re.compile(rf"(?P<sign>[+-]?){_NUMBER}(?P<percent>%?)")
_PITCH = re.compile(rf"(?P<sign>[+-]?){_NUMBER}(?P<unit>st|%)", re.IGNORECASE)
_VOLUME = re.compile(rf"(?P<sign>[+-]?){_NUMBER}(?P<unit>dB)?", re.IGNORECASE)


def rate(text: str) -> float | None:
    """The factor of a rate: a word, `80%`, `+20%` or `0.8`. None, here and below, if it is none of these."""
    if text in RATES:
        return RATES[text]
    match = _RATE.fullmatch(text)
    if not match or (match["sign"] and not match["percent"]):
        return None
    number = float(match["number"]) / (100 if match["percent"] else 1)
    factor = {"+": 1 + number, "-": 1 - number}.get(match["sign"], number)
    return factor if factor > 0 else None


def pitch(text: str) -> float | None:
    """Semitones: a word, `+2st` or `-10%`."""
    if text in PITCHES:
        return PITCHES[text]
    match = _PITCH.fullmatch(text)
    if not match:
        return None
    number = -float(match["number"]) if match["sign"] == "-" else float(match["number"])
    if match["unit"].lower() == "st":
        return number
    if not match["sign"] or number <= -100:
        return None
    return 12 * math.log2(1 + number / 100)


def volume(text: str) -> float | None:
    """dB: a word, `+6dB`, or from 0 to 100, which is full."""
    if text in VOLUMES:
        return VOLUMES[text]
    match = _VOLUME.fullmatch(text)
    if not match:
        return None
    number = float(match["number"])
    if match["unit"]:
        return -number if match["sign"] == "-" else number
    if match["sign"] or number > 100:
        return None
    return 20 * math.log10(number / 100) if number else -math.inf


def seconds(text: str) -> float | None:
    """The time of a break: `1.5s` or `300ms`, at most as long as a pause may be."""
    return pauses.parse_seconds(text.removeprefix("+"))
