"""Writes audio files with chapter marks, tags and a cover. The same input makes the same file."""
