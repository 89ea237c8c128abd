"""Voices: packs of styles, looked up by name or mixed."""

from __future__ import annotations

from kokoro_server.engine.voices.book import HeldVoice, OwnVoice, VoiceBook, Voices
from kokoro_server.engine.voices.mix import MAX_PARTS
from kokoro_server.engine.voices.names import GRADES, OPENAI_VOICES, Gender, VoiceInfo
from kokoro_server.engine.voices.packs import Pack, read_pack

__all__ = [
    "GRADES",
    "MAX_PARTS",
    "OPENAI_VOICES",
    "Gender",
    "HeldVoice",
    "OwnVoice",
    "Pack",
    "VoiceBook",
    "VoiceInfo",
    "Voices",
    "read_pack",
]
