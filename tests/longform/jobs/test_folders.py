from __future__ import annotations

from pathlib import Path

import pytest

from kokoro_server.errors import Unavailable
from kokoro_server.longform.jobs.folders import check_space, safe_name
from kokoro_server.longform.jobs.uploads import DocumentReader
from tests.longform.books.doubles import VOICES


@pytest.mark.parametrize("name", ["😀" * 200, "海" * 200, "a" * 200, "é" * 79 + "😀" * 9])
def test_the_files_of_a_result_can_have_the_name_of_any_upload(name: str) -> None:
    kept = safe_name(f"../{name}.epub", "upload")
    assert kept.endswith(".epub")
    assert kept.removesuffix(".epub") in name
    assert len(f"{kept} (read along).epub.unfinished".encode()) <= 255


async def test_a_folder_that_is_away_is_no_fault_of_the_document(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="jobs cannot be kept now: No such file"):
        check_space(tmp_path / "gone")
    upload = tmp_path / "sea.txt"
    upload.write_text("The sea was calm.")
    options = {"chapters": None, "voice": None, "language": None, "speed": 1.0, "dialogue_voice": None}
    options |= {"voice_of": {}, "loudness": None}
    with pytest.raises(Unavailable, match="jobs cannot be kept now: No such file"):
        await DocumentReader().read(upload, "sea.txt", options, VOICES, tmp_path / "gone" / "book.json")
