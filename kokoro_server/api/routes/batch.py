"""`POST /tts/batch`: many clips, one zip file."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
import time
import zipfile
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import IO, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from kokoro_server.api.async_render import Renderers
from kokoro_server.api.disconnect import cancel_on_disconnect
from kokoro_server.api.errors import validation_message
from kokoro_server.api.routes.tts import ERRORS, RequestTimeout, batching_enabled, get_services, new_ticket
from kokoro_server.api.schemas.speech import BatchRequest, TTSRequest
from kokoro_server.batching.entry import Priority
from kokoro_server.batching.tickets import Ticket
from kokoro_server.errors import BadRequest, InvalidInput, KokoroError
from kokoro_server.text.pieces import Cutting

router = APIRouter(tags=["speech"])

MAX_IN_MEMORY = 32 * 1024 * 1024  # bytes of a zip file; a larger one goes to the disk
CHUNK_BYTES = 256 * 1024
MAX_QUOTE = 200  # characters of a failed clip's text in its error file


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """A clip's file in the archive and its entry in the manifest."""

    name: str
    content: list[bytes]  # in parts
    manifest: dict[str, Any]


@router.post(
    "/tts/batch",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The clips, an error file in the place of each that failed, and manifest.json",
            "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        },
        **ERRORS,
    },
)
async def batch(body: BatchRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak many texts, each with a voice, a speed and a format of its own, and answer with a zip file.

    A clip that fails costs only itself: `error_002.txt` stands in its place and says why. One with
    `optimize_for_latency` does not wait for the others; the answer comes when all are done.
    """
    check_count(request, body)
    archive, failed = await cancel_on_disconnect(request.receive, _archive(request, body.requests, timeout))
    headers = {
        "Content-Disposition": "attachment; filename=tts_batch.zip",
        "Content-Length": str(archive.seek(0, 2)),
        "X-Total-Requests": str(len(body.requests)),
        "X-Failed-Requests": str(failed),
        "X-Batching-Enabled": batching_enabled(request),
    }
    return StreamingResponse(_chunks(archive), media_type="application/zip", headers=headers)


def check_count(request: Request, body: BatchRequest) -> None:
    """Raises BadRequest for more clips than are allowed."""
    limit = get_services(request).settings.max_clips_per_request
    if len(body.requests) > limit:
        raise BadRequest(
            f"requests has {len(body.requests)} clips; at most {limit} are allowed (MAX_BATCH_SIZE)", field="requests"
        )


@dataclass(frozen=True, slots=True)
class _Jobs:
    """What clips of one request share: those in bulk, and those that are wanted early, which do not wait for them."""

    bulk: Ticket
    early: Ticket

    def until(self, deadline: float) -> _Jobs:
        return _Jobs(replace(self.bulk, first_deadline=deadline), replace(self.early, first_deadline=deadline))


def _new_jobs(request: Request, timeout: float | None) -> _Jobs:
    bypass = get_services(request).clip_bypass
    bulk = new_ticket(request, timeout, Priority.BULK)
    early = new_ticket(request, timeout, bypass=bypass, urgent=bypass)
    return _Jobs(bulk, early).until(bulk.first_deadline)


async def _archive(request: Request, bodies: list[Any], timeout: float | None) -> tuple[IO[bytes], int]:
    """The whole zip file, and how many clips failed: `X-Failed-Requests` must be known before the file is sent."""
    first = _new_jobs(request, timeout)
    # The request's own timeout bounds the wait for the first clip: the others wait for those before them.
    others = first.until(get_services(request).queue.later_deadline())
    archive: IO[bytes] = tempfile.SpooledTemporaryFile(MAX_IN_MEMORY)  # noqa: SIM115 - closed when it has been sent
    manifest: list[dict[str, Any]] = []
    try:
        async with asyncio.TaskGroup() as group:
            clips = deque(
                group.create_task(_clip(request, n, body, first if n == 1 else others))
                for n, body in enumerate(bodies, 1)
            )
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
                while clips:
                    entry = await clips.popleft()
                    await asyncio.to_thread(_write, file, entry)
                    manifest.append(entry.manifest)
                await asyncio.to_thread(_write_manifest, file, manifest)
    except BaseException:
        archive.close()
        raise
    return archive, sum(clip["status"] != "ok" for clip in manifest)


def _write(file: zipfile.ZipFile, entry: ZipEntry) -> None:
    info = zipfile.ZipInfo(entry.name, time.localtime()[:6])
    info.file_size = sum(map(len, entry.content))
    with file.open(info, "w") as written:
        for part in entry.content:
            written.write(part)


def _write_manifest(file: zipfile.ZipFile, manifest: list[dict[str, Any]]) -> None:
    # A lone surrogate, which UTF-8 cannot hold, becomes an escape that JSON knows.
    content = json.dumps(manifest, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    file.writestr("manifest.json", content, zipfile.ZIP_DEFLATED)


async def _clip(request: Request, number: int, body: Any, jobs: _Jobs) -> ZipEntry:
    try:
        parsed = parse(body)
        rendering = parsed.rendering(parsed.format)
        early = parsed.optimize_for_latency
        cutting: Cutting = "short_start" if early else "clip"
        job = jobs.early if early else jobs.bulk
        clip = await get_services(request).synthesizer.speak(parsed.speech(), job, cutting=cutting)
        renderers: Renderers = request.app.state.renderers
        content = await renderers.render(clip.audio, rendering, clip.pcm16)
    except KokoroError as error:
        return _error_entry(number, body, error)
    name = f"tts_{number:03}_{clip.voice}.{parsed.format}"
    facts = {"duration": round(clip.seconds, 3), "status": "ok", "error": None, "skipped": clip.skipped}
    return ZipEntry(name, content, _manifest(number, name, body, facts))


def parse(body: Any) -> TTSRequest:
    """One of the clips. Raises InvalidInput for one that is wrong."""
    try:
        return TTSRequest.model_validate(body)
    except ValidationError as error:
        message, field = validation_message(error.errors())
        raise InvalidInput(message, field=field) from error


def _error_entry(number: int, body: Any, error: KokoroError) -> ZipEntry:
    name = f"error_{number:03}.txt"
    text = str(_field(body, "text") or "")
    quoted = text if len(text) <= MAX_QUOTE else text[:MAX_QUOTE] + "…"
    content = f"{error.code}: {error.message}\n\n{quoted}\n".encode("utf-8", "replace")
    facts = {"duration": None, "status": "error", "error": error.message, "skipped": 0}
    return ZipEntry(name, [content], _manifest(number, name, body, facts))


def _manifest(number: int, name: str, body: Any, facts: dict[str, Any]) -> dict[str, Any]:
    sent = {key: _field(body, key) for key in ("text", "voice", "speed")}
    defaults = {key: TTSRequest.model_fields[key].default for key in sent}
    return {"index": number, "file": name} | {k: sent[k] if sent[k] is not None else defaults[k] for k in sent} | facts


def _field(body: Any, key: str) -> Any:
    value = body.get(key) if isinstance(body, dict) else None
    # JSON has no word for infinity, but 1e999 is one when it is read.
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


async def _chunks(archive: IO[bytes]) -> AsyncIterator[bytes]:
    with archive:
        archive.seek(0)
        while chunk := await asyncio.to_thread(archive.read, CHUNK_BYTES):
            yield chunk
