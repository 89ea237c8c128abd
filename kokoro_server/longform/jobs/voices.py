"""The custom voices of a job, kept in its folder: a voice that is changed or removed does not change the job."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from dataclasses import asdict

import numpy as np

from kokoro_server.errors import UnknownVoice
from kokoro_server.longform.jobs.folders import JobFolder
from kokoro_server.runtime.files import new_file
from kokoro_server.runtime.json import JsonObject
from kokoro_server.voices import CustomVoice, VoiceInfo, VoiceSnapshot, mix
from kokoro_server.voices.packs import SHAPE

INDEX = "voices.json"


def keep_voices(folder: JobFolder, voices: VoiceSnapshot, names: Iterable[str]) -> None:
    """Keep those of the named voices that are custom, and the custom voices that they are made of."""
    known, wanted, entries = voices.names(), list(names), dict[str, JsonObject]()
    with new_file(folder.voices) as unfinished, zipfile.ZipFile(unfinished, "w") as archive:
        while wanted:
            name = wanted.pop()
            if name in entries or name not in voices.custom:
                continue
            voice = voices.custom[name]
            entries[name] = {"info": asdict(voice.info)}
            if isinstance(voice.source, str):
                entries[name]["blend"] = voice.source
                wanted += mix.parse(voice.source, known)
            else:
                archive.writestr(f"{name}.bin", voice.source.astype("<f4").tobytes())
        archive.writestr(INDEX, json.dumps(entries))


def kept_voices(folder: JobFolder) -> dict[str, CustomVoice] | None:
    """None for a job of an earlier version. Raises UnknownVoice if the file is damaged."""
    try:
        with zipfile.ZipFile(folder.voices) as archive:
            entries = json.loads(archive.read(INDEX))
            return {name: _voice(archive, name, entry) for name, entry in entries.items()}
    except FileNotFoundError:
        return None
    except Exception as error:  # zipfile raises a dozen kinds
        reason = f"the voices that were kept for this job cannot be read any more ({error}); send it again"
        raise UnknownVoice(reason, field="voice") from error


def _voice(archive: zipfile.ZipFile, name: str, entry: JsonObject) -> CustomVoice:
    info = VoiceInfo(**entry["info"])
    if "blend" in entry:
        return CustomVoice(info, entry["blend"])
    return CustomVoice(info, np.frombuffer(archive.read(f"{name}.bin"), "<f4").reshape(SHAPE))
