"""`kokoro-server voices`: list the voices of the model or of a server."""

from __future__ import annotations

import argparse
import sys

from kokoro_server import languages
from kokoro_server.cli import CommandFailed
from kokoro_server.client import KokoroClient, Voice
from kokoro_server.config.settings import Settings
from kokoro_server.synthesis.speech_backend import voices_of
from kokoro_server.voices.custom import catalogued


def run(settings: Settings, options: argparse.Namespace) -> int:
    among = (*languages.LANGUAGES, *languages.OTHERS.values())
    wanted = languages.parse(options.language, among).code if options.language else None
    shown = 0
    for voice in _of_server(options.url, settings.key_to_send) if options.url else voices_of(catalogued(settings)):
        if wanted in (None, voice.language):
            note = "" if voice.installed else "not installed"
            line = f"{voice.name:<16} {voice.language:<6} {voice.gender:<7} {voice.grade or '':<3} {note}"
            sys.stdout.write(line.rstrip() + "\n")
            shown += 1
    if not shown:
        raise CommandFailed(f"no voice speaks {wanted}; models of other languages go into MODELS_PATH")
    return 0


def _of_server(url: str, api_key: str | None) -> list[Voice]:
    with KokoroClient(url, api_key=api_key) as client:
        return client.voices()
