"""Documents that take long: who sends them waits, and nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.api.schemas.jobs import BookRequest
from kokoro_server.callers.current import caller
from kokoro_server.errors import TooBusy, UnreadableDocument
from kokoro_server.longform.jobs import uploads
from kokoro_server.longform.jobs.uploads import DocumentReader, cpu_seconds
from tests.longform.books.documents.pdfs import pdf
from tests.longform.books.doubles import VOICES

OPTIONS = BookRequest.model_validate({}).model_dump()


async def read(reader: DocumentReader, name: str, path: Path) -> dict[str, Any]:
    caller.set(name)
    return await reader.read(path, path.name, OPTIONS, VOICES, None)


async def test_one_caller_leaves_a_place_to_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: DocumentReader, request: bytes, name: str, cpu_s: int) -> dict[str, Any]:
        if name == "slow.txt":
            await asyncio.Event().wait()
        return await really(self, request, name, cpu_s)

    really = DocumentReader._run
    monkeypatch.setattr(DocumentReader, "_run", run)
    reader, slow, quick = DocumentReader(), tmp_path / "slow.txt", tmp_path / "quick.txt"
    for path in (slow, quick):
        path.write_text("The sea was calm.")
    waiting = [asyncio.create_task(read(reader, "ann", slow)) for _ in range(uploads.MAX_WAITING)]
    await asyncio.sleep(0.1)
    async with asyncio.timeout(120):
        about = await asyncio.create_task(read(reader, "bob", quick))
    assert about["voices"] == ["af_heart"]
    with pytest.raises(TooBusy, match="8 of your documents"):
        await asyncio.create_task(read(reader, "ann", quick))
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await asyncio.create_task(read(reader, "ann", quick)))["kind"] == "book"


async def test_a_small_pdf_that_takes_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "LEAST_CPU_S", 1)
    path = tmp_path / "small.pdf"
    path.write_bytes(pdf([["a"] * 300_000]))
    assert path.stat().st_size < 10_000
    with pytest.raises(UnreadableDocument, match="more than 1 s of processor time"):
        await read(DocumentReader(), "ann", path)


@pytest.mark.parametrize(("size", "seconds"), [(0, 10), (49_000, 11), (1_000_000, 40), (200_000_000, 120)])
def test_a_document_gets_time_by_its_size(size: int, seconds: int) -> None:
    assert cpu_seconds(size) == seconds
