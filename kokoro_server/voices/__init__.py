"""Voices: packs of styles, looked up by name or mixed."""

from __future__ import annotations

from kokoro_server.voices.book import CustomVoice, HeldVoice, VoiceBook, VoiceSnapshot
from kokoro_server.voices.mix import MAX_PARTS
from kokoro_server.voices.names import GRADES, OPENAI_VOICES, Gender, VoiceInfo
from kokoro_server.voices.packs import Pack, read_pack

__all__ = [
    "GRADES",
    "MAX_PARTS",
    "OPENAI_VOICES",
    "CustomVoice",
    "Gender",
    "HeldVoice",
    "Pack",
    "VoiceBook",
    "VoiceInfo",
    "VoiceSnapshot",
    "read_pack",
]
