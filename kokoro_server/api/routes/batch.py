"""`POST /tts/batch`: many clips, one zip file."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import shutil
import tempfile
import time
import zipfile
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from kokoro_server.api.clip_files import (
    CHUNK_BYTES,
    ClipFile,
    ClipSpool,
    close_unnamed,
    disk_errors,
    spooled,
    takes_memory,
)
from kokoro_server.api.disconnect import cancel_on_disconnect
from kokoro_server.api.schemas.speech import BatchRequest, TTSRequest
from kokoro_server.api.speech import (
    BINARY,
    ERRORS,
    RequestTimeout,
    batching_enabled,
    check_clip_count,
    new_ticket,
    parse_clip,
)
from kokoro_server.api.state import get_services
from kokoro_server.batching.entry import Deadline, Priority
from kokoro_server.batching.tickets import Ticket
from kokoro_server.config.defaults import default_voice
from kokoro_server.errors import KokoroError, first_of, for_client
from kokoro_server.languages import is_auto
from kokoro_server.runtime.files import make_private_folder
from kokoro_server.runtime.json import JsonObject
from kokoro_server.runtime.threads import in_thread_to_its_end
from kokoro_server.text.pieces import Cutting

log = logging.getLogger(__name__)
router = APIRouter(tags=["speech"])

SpooledFile = tempfile.SpooledTemporaryFile[bytes]
MAX_IN_MEMORY = 32 * 1024 * 1024  # bytes of a zip file; a larger one goes to the disk
MAX_QUOTE = 200  # characters of a failed clip's text in its error file


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """A clip's file in the archive and its entry in the manifest."""

    name: str
    content: ClipFile
    manifest: JsonObject


@router.post(
    "/tts/batch",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The clips, an error file in the place of each that failed, and manifest.json",
            "content": {"application/zip": BINARY},
        },
        **ERRORS,
    },
)
async def batch(body: BatchRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak many texts, each with its own voice, speed and format, and answer with a zip file.

    A clip that fails costs only itself: `error_002.txt` stands in its place and says why. A clip with
    `optimize_for_latency` does not wait for the rest; the answer comes when all are done.
    """
    check_clip_count(request, body)
    archive, failed = await cancel_on_disconnect(request.receive, _archive(request, body.requests, timeout))
    size = archive.seek(0, 2)
    if size <= MAX_IN_MEMORY and not takes_memory(request, size):
        with disk_errors():
            await asyncio.to_thread(archive.rollover)
    headers = {
        "Content-Disposition": "attachment; filename=tts_batch.zip",
        "Content-Length": str(size),
        "X-Total-Requests": str(len(body.requests)),
        "X-Failed-Requests": str(failed),
        "X-Batching-Enabled": batching_enabled(request),
    }
    return StreamingResponse(_chunks(archive), media_type="application/zip", headers=headers)


@dataclass(frozen=True, slots=True)
class _Tickets:
    """The tickets that the clips of one request share: `early` for those with `optimize_for_latency`, else `bulk`."""

    bulk: Ticket
    early: Ticket

    def until(self, deadline: Deadline) -> _Tickets:
        return _Tickets(replace(self.bulk, first_deadline=deadline), replace(self.early, first_deadline=deadline))


def _new_tickets(request: Request, timeout: float | None) -> _Tickets:
    bypass = get_services(request).clip_bypass
    bulk = new_ticket(request, timeout, Priority.BULK)
    early = new_ticket(request, timeout, bypass=bypass, urgent=bypass)
    return _Tickets(bulk, early).until(bulk.first_deadline)


async def _archive(request: Request, bodies: list[Any], timeout: float | None) -> tuple[SpooledFile, int]:
    """Returns the whole zip file and how many clips failed: `X-Failed-Requests` is sent before the file."""
    first = _new_tickets(request, timeout)
    # The request's own timeout bounds the wait for the first clip: each later clip waits for those before it.
    later = first.until(get_services(request).queue.later_deadline())
    archive = await asyncio.to_thread(_new_archive, get_services(request).settings.spool_path)
    request.scope["on_end"].push_async_callback(asyncio.to_thread, close_unnamed, archive)
    held = _HeldClips(request)
    manifest: list[JsonObject] = []
    try:
        async with asyncio.TaskGroup() as group:
            clips = deque(
                group.create_task(_clip(request, n, body, first if n == 1 else later, held))
                for n, body in enumerate(bodies, 1)
            )
            with disk_errors(), zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
                while clips:
                    entry = await clips.popleft()
                    await in_thread_to_its_end(partial(_write, file, entry))
                    await held.release(entry.content)
                    manifest.append(entry.manifest)
                await in_thread_to_its_end(partial(_write_manifest, file, manifest))
    except BaseExceptionGroup as failed:
        raise first_of(failed) from None
    return archive, sum(clip["status"] != "ok" for clip in manifest)


def _new_archive(folder: Path | None) -> SpooledFile:
    if folder is not None:
        make_private_folder(folder)
    return tempfile.SpooledTemporaryFile(MAX_IN_MEMORY, dir=None if folder is None else str(folder))


class _HeldClips:
    """The clips of one request that wait for those before them: beyond MAX_IN_MEMORY bytes, they wait on the disk."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._bytes = 0

    async def hold(self, content: ClipFile) -> ClipFile:
        if content.file is None and self._bytes + content.size > MAX_IN_MEMORY:
            return await spooled(self._request, content)
        if content.file is None:
            self._bytes += content.size
        return content

    async def release(self, content: ClipFile) -> None:
        if content.file is None:
            self._bytes -= content.size
        await content.close()


def _write(file: zipfile.ZipFile, entry: ZipEntry) -> None:
    info = zipfile.ZipInfo(entry.name, time.localtime()[:6])
    info.file_size = entry.content.size
    with file.open(info, "w") as written:
        for part in entry.content.parts:
            written.write(part)
        if entry.content.file is not None:
            entry.content.file.seek(0)
            shutil.copyfileobj(entry.content.file, written, CHUNK_BYTES)


def _write_manifest(file: zipfile.ZipFile, manifest: list[JsonObject]) -> None:
    # A lone surrogate, which UTF-8 cannot hold, becomes an escape that JSON knows.
    content = json.dumps(manifest, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    file.writestr("manifest.json", content, zipfile.ZIP_DEFLATED)


async def _clip(request: Request, number: int, body: Any, tickets: _Tickets, held: _HeldClips) -> ZipEntry:
    try:
        parsed = parse_clip(body)
        early = parsed.optimize_for_latency
        cutting: Cutting = "short_start" if early else "clip"
        ticket = tickets.early if early else tickets.bulk
        spool = ClipSpool(request, parsed.rendering())
        synthesizer = get_services(request).synthesizer
        clip = await synthesizer.speak(parsed.speech(), ticket, cutting=cutting, overflow=spool)
        content = await held.hold(await spool.rendered(clip))
    except KokoroError as error:
        return _error_entry(number, body, error)
    except Exception as error:  # a fault in one clip must not cost the rest
        log.exception("clip failed number=%d", number)
        return _error_entry(number, body, for_client(error))
    name = f"tts_{number:03}_{clip.voice}.{parsed.format}"
    facts = {"duration": round(clip.seconds, 3), "status": "ok", "error": None, "skipped": clip.skipped}
    if is_auto(parsed.language):
        facts["voice"] = clip.voice
    return ZipEntry(name, content, _manifest(number, name, body, facts))


def _error_entry(number: int, body: Any, error: KokoroError) -> ZipEntry:
    name = f"error_{number:03}.txt"
    text = str(_field(body, "text") or "")
    quoted = text if len(text) <= MAX_QUOTE else text[:MAX_QUOTE] + "…"
    content = f"{error.code}: {error.message}\n\n{quoted}\n".encode("utf-8", "replace")
    facts = {"duration": None, "status": "error", "error": error.message, "skipped": 0}
    return ZipEntry(name, ClipFile(len(content), [content]), _manifest(number, name, body, facts))


def _manifest(number: int, name: str, body: Any, facts: JsonObject) -> JsonObject:
    sent = {key: _field(body, key) for key in ("text", "voice", "speed")}
    language = _field(body, "language")
    defaults = {key: TTSRequest.model_fields[key].default for key in sent}
    defaults["voice"] = default_voice(language if isinstance(language, str) else None)
    return {"index": number, "file": name} | {k: sent[k] if sent[k] is not None else defaults[k] for k in sent} | facts


def _field(body: Any, key: str) -> Any:
    value = body.get(key) if isinstance(body, dict) else None
    # JSON has no infinity, but Python reads 1e999 as one.
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


async def _chunks(archive: SpooledFile) -> AsyncIterator[bytes]:
    with archive:
        archive.seek(0)
        while chunk := await asyncio.to_thread(archive.read, CHUNK_BYTES):
            yield chunk
