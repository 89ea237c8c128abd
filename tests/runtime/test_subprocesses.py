"""Children run our code alone: in the working folder lie files of strangers with the names of modules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kokoro_server.audio.encoders import AacEncoder
from kokoro_server.longform.jobs.uploads import DocumentReader
from tests.longform.books.doubles import VOICES

OPTIONS = {"chapters": None, "voice": None, "language": None, "speed": 1.0, "dialogue_voice": None}


@pytest.fixture(autouse=True)
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Exists once one of the strangers' modules was run."""
    for name in ("av", "lxml", "pydantic", "numpy", "sqlite3"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\nraise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "ran"


def test_the_aac_encoder_runs_nothing_from_the_working_folder(ran: Path) -> None:
    encoder = AacEncoder(24_000)
    written = encoder.write(np.zeros(24_000, np.float32)) + encoder.finish()
    assert written[:1] == b"\xff"  # ADTS
    assert not ran.exists()


async def test_the_reader_of_uploads_runs_nothing_from_the_working_folder(ran: Path, tmp_path: Path) -> None:
    upload = tmp_path / "sea.txt"
    upload.write_text("The sea is calm tonight.\n")
    about = await DocumentReader().read(
        upload, "sea.txt", OPTIONS | {"voice_of": {}, "loudness": None}, VOICES, tmp_path / "book.json"
    )
    assert about
    assert not ran.exists()  # noqa: ASYNC240
