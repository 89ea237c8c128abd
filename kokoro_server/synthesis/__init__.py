"""Text to audio: the service object that every endpoint and command calls."""
