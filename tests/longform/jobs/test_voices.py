"""The custom voices of a job, which its folder keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kokoro_server.errors import UnknownVoice
from kokoro_server.longform.jobs.folders import JobFolder, new_id
from kokoro_server.longform.jobs.voices import keep_voices, kept_voices
from kokoro_server.voices import CustomVoice, VoiceBook, VoiceInfo
from kokoro_server.voices.contents import VoiceContents, VoiceFinder
from kokoro_server.voices.packs import SHAPE
from tests import tiny


def custom(name: str, source: object) -> CustomVoice:
    assert isinstance(source, str | np.ndarray)
    return CustomVoice(VoiceInfo(name, name.title(), "b", "female", None), source)


def granny(seed: int) -> CustomVoice:
    pack = np.random.default_rng(seed).normal(scale=0.5, size=SHAPE).astype(np.float32)
    return custom("granny", pack)


@pytest.fixture
def book(tmp_path: Path) -> VoiceBook:
    (tmp_path / "voices").mkdir()
    return VoiceBook(tiny.write_voices(tmp_path / "voices"))


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    folder = JobFolder(tmp_path, new_id())
    folder.make()
    return folder


def test_a_job_keeps_the_voices_that_it_uses(book: VoiceBook, folder: JobFolder) -> None:
    voices = {
        "granny": granny(1),
        "old-granny": custom("old-granny", "granny(2)+af_sky(1)"),
        "other": custom("other", "af_heart"),
    }
    now = book.held(voices).now
    assert kept_voices(folder) is None
    keep_voices(folder, now, ["old-granny", "af_heart", "nobody"])
    kept = kept_voices(folder)
    assert kept
    assert kept.keys() == {"granny", "old-granny"}
    later = book.held(kept).now
    assert (later.pack("old-granny") == now.pack("old-granny")).all()
    assert later.language("old-granny") == "b"
    whole = folder.voices.read_bytes()
    compressed = whole.replace(b"PK\3\4\x14\0\0\0\0\0", b"PK\3\4\x14\0\0\0\x08\0").replace(
        b"PK\1\2\x14\3\x14\0\0\0\0\0", b"PK\1\2\x14\3\x14\0\0\0\x08\0"
    )  # so says its head: what follows is no such data
    encrypted = whole.replace(b"PK\1\2\x14\3\x14\0\0\0", b"PK\1\2\x14\3\x14\0\1\0")
    for damaged in (whole[:1000], compressed, encrypted):
        assert damaged != whole
        folder.voices.write_bytes(damaged)
        with pytest.raises(UnknownVoice, match="send it again"):
            kept_voices(folder)


def test_only_a_change_of_a_voice_that_is_used_changes_a_fingerprint(book: VoiceBook) -> None:
    voices = {"granny": granny(1), "old-granny": custom("old-granny", "granny(2)+af_sky(1)")}
    before = VoiceContents(book.held(voices).now)
    added = VoiceContents(book.held(voices | {"new": custom("new", "af_heart")}).now)
    changed = VoiceContents(book.held(voices | {"granny": granny(2)}).now)
    for request in (["old-granny"], {"voice": "af_sky-old-granny(0.3)"}, {"text": "[voice:granny]Hello."}):
        assert before.fingerprint(request) == added.fingerprint(request) != changed.fingerprint(request), request
    for request in (["af_sky"], {"voice": "af_bella+af_sky", "text": "Hello."}):
        assert before.fingerprint(request) == added.fingerprint(request) == changed.fingerprint(request), request


@pytest.mark.parametrize(
    "request_",
    [
        {"voice": "a.b-c"},
        {"voice": "af_heart:0.3,a.b-c:0.7"},
        {"text": "[voice:a.b-c]Hi."},
        {"text": '<speak><voice name="a&#46;b-c">Hi.</voice></speak>', "ssml": True},
        {"turns": [{"text": "Hi.", "voice": "a.b-c"}]},
        {"voice": "x", "voice_aliases": {"x": "a.b-c"}},
    ],
)
def test_the_voices_of_a_request_are_found_wherever_it_names_them(request_: dict[str, object]) -> None:
    assert "a.b-c" in VoiceFinder(["af_heart", "a.b-c", "zoe"]).names_in(request_)
    assert "zoe" not in VoiceFinder(["af_heart", "a.b-c", "zoe"]).names_in(request_)
