"""Voices of one's own: named blends in a file, and voice packs, from VOICES_PATH."""

from __future__ import annotations

from kokoro_server.own_voices.keeper import OwnVoices, catalogued

__all__ = ["OwnVoices", "catalogued"]
