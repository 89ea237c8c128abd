from __future__ import annotations

import pytest

from kokoro_server.jobs.folders import safe_name


@pytest.mark.parametrize("name", ["😀" * 200, "海" * 200, "a" * 200, "é" * 79 + "😀" * 9])
def test_the_files_of_a_result_can_have_the_name_of_any_upload(name: str) -> None:
    kept = safe_name(f"../{name}.epub", "upload")
    assert kept.endswith(".epub")
    assert kept.removesuffix(".epub") in name
    assert len(f"{kept} (read along).epub.unfinished".encode()) <= 255
