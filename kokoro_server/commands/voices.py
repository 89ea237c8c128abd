"""`kokoro-server voices`: list the voices of the model or of a server."""

from __future__ import annotations

import argparse
import sys

from kokoro_server.assets.catalog import CATALOG
from kokoro_server.client import KokoroClient, Voice
from kokoro_server.config import Settings
from kokoro_server.engine.voices import GRADES
from kokoro_server.g2p import extras, languages


def run(settings: Settings, options: argparse.Namespace) -> int:
    wanted = languages.parse(options.language).code if options.language else None
    for voice in _of_server(options.url, settings.key_to_send) if options.url else _of_model():
        if wanted in (None, voice.language):
            note = "" if voice.installed else "not installed"
            line = f"{voice.name:<16} {voice.language:<6} {voice.gender:<7} {voice.grade or '':<3} {note}"
            sys.stdout.write(line.rstrip() + "\n")
    return 0


def _of_server(url: str, api_key: str | None) -> list[Voice]:
    with KokoroClient(url, api_key=api_key) as client:
        return client.voices()


def _of_model() -> list[Voice]:
    """The voices of Kokoro-82M v1.0, whether or not they have been fetched."""
    return [
        Voice(
            name=name,
            title=name[3:].title(),
            language=languages.of_voice(name).code,
            gender="female" if name[1] == "f" else "male",
            grade=GRADES.get(name),
            installed=extras.is_installed(languages.of_voice(name)),
        )
        for name in sorted(CATALOG.voices)
    ]
