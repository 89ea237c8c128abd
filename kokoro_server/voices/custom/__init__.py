"""Custom voices: named blends in a file, and voice packs, from VOICES_PATH."""

from __future__ import annotations

from kokoro_server.voices.custom.keeper import CustomVoices, catalogued

__all__ = ["CustomVoices", "catalogued"]
