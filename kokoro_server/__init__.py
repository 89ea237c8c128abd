"""Kokoro Server: batched Kokoro-82M text-to-speech over HTTP."""

__version__ = "0.1.0"
