"""A script as text with tags, as Kokoro-FastAPI translates SSML."""

from __future__ import annotations

from kokoro_server.api.compat.kokoro_fastapi.schemas import SsmlSupport
from kokoro_server.text import spoken
from kokoro_server.text.pauses import Pause
from kokoro_server.text.script import Delivery, Script
from kokoro_server.text.ssml import values
from kokoro_server.text.voice_tags import MAX_SPEED, MIN_SPEED

SUPPORT = SsmlSupport(
    elements={
        "speak": "the document",
        "break": "[pause:…]",
        "voice": "[voice:…]",
        "prosody": "[rate:…]; pitch and volume are left out",
        "emphasis": "[rate:…]",
        "sub": "its alias",
        "say-as": "its words",
        "phoneme": "its text",
        "p": "a pause between paragraphs",
        "s": "a pause between sentences",
    },
    ignored=["audio", "lang", "mark", "w"],
    break_strengths={name: seconds or 0.0 for name, seconds in values.BREAKS.items()},
    prosody_rates=values.RATES,
    rate_range=[MIN_SPEED, MAX_SPEED],
)


def tagged(parts: Script, *, tags: bool) -> str:
    """With `tags` of voices and rates, where they change."""
    text, before = "", None
    for part in parts:
        if isinstance(part, Pause):
            text += f"[pause:{part.seconds:g}s]"
            continue
        if tags:
            text += _tags(part.delivery, before)
        text += spoken.apply(part.claims, part.text).text
        before = part.delivery
    return text


def _tags(delivery: Delivery, before: Delivery | None) -> str:
    """A voice has its own pace at first; so has the one that begins."""
    new_voice = before is not None and before.voice != delivery.voice
    rate_before = 1.0 if before is None or new_voice else before.speed
    voice = f"[voice:{delivery.voice}]" if new_voice else ""
    return voice + (f"[rate:{delivery.speed:g}]" if delivery.speed != rate_before else "")
