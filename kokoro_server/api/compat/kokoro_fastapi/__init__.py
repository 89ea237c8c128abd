"""Kokoro-FastAPI's own endpoints beyond OpenAI's."""
