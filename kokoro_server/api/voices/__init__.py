"""Voices: listed, defined and removed."""
