"""The voices of this server, as lists of voices show them."""

from __future__ import annotations

import asyncio

from kokoro_server import languages
from kokoro_server.api.schemas.voices import VoiceAnswer, VoicesAnswer
from kokoro_server.errors import KokoroError
from kokoro_server.synthesis.services import Services
from kokoro_server.voices import VoiceInfo

G2P_ANSWER = 2.0  # seconds that a list of voices waits for the G2P service's list of languages


async def known_voices(services: Services) -> list[VoiceInfo]:
    """Every voice, also those that another process has just defined."""
    await services.voices.refresh()
    now = services.voices.now
    return [now.info(name) for name in now.names()]


async def absent_languages(services: Services, seconds: float = G2P_ANSWER) -> set[str]:
    """The languages whose text cannot be read because they are not installed; none while the G2P service is down."""
    try:
        return await asyncio.wait_for(services.g2p.not_installed(), seconds)
    except (KokoroError, TimeoutError):
        return set()


async def list_voices(services: Services, seconds: float = G2P_ANSWER) -> VoicesAnswer:
    """`seconds`: the longest wait for the G2P service."""
    voices = await known_voices(services)
    absent = await absent_languages(services, seconds)
    return VoicesAnswer(voices=[voice_answer(info, absent) for info in voices])


def voice_answer(info: VoiceInfo, absent: set[str]) -> VoiceAnswer:
    language = languages.of_voice(info.language).code
    return VoiceAnswer(
        name=info.name,
        title=info.title,
        language=language,
        gender=info.gender,
        grade=info.grade,
        blend=info.blend,
        installed=language not in absent,
    )
