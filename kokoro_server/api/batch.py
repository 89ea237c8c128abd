"""`POST /tts/batch`: many clips, one zip file."""

from __future__ import annotations

import asyncio
import json
import tempfile
import zipfile
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import IO, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from kokoro_server.api.disconnect import while_connected
from kokoro_server.api.errors import in_words
from kokoro_server.api.rendering import rendered
from kokoro_server.api.schemas import BatchRequest, TTSRequest
from kokoro_server.api.tts import ERRORS, RequestTimeout, batching_enabled, job, parts
from kokoro_server.batching.entry import Priority
from kokoro_server.batching.queue import Job
from kokoro_server.errors import BadRequest, InvalidInput, KokoroError

router = APIRouter(tags=["speech"])

IN_MEMORY = 32 * 1024 * 1024  # bytes of a zip file; a larger one goes to the disk
CHUNK = 256 * 1024
QUOTED = 200  # characters of a failed clip's text in its error file


@dataclass(frozen=True, slots=True)
class Made:
    """A clip's file and its line in the manifest."""

    name: str
    content: bytes
    line: dict[str, Any]


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

    A clip that fails costs only itself: `error_002.txt` stands in its place and says why.
    """
    limit = parts(request).settings.max_batch_clips
    if len(body.requests) > limit:
        raise BadRequest(
            f"requests has {len(body.requests)} clips; at most {limit} are allowed (MAX_BATCH_SIZE)", field="requests"
        )
    archive, failed = await while_connected(request.receive, _archive(request, body.requests, timeout))
    headers = {
        "Content-Disposition": "attachment; filename=tts_batch.zip",
        "Content-Length": str(archive.seek(0, 2)),
        "X-Total-Requests": str(len(body.requests)),
        "X-Failed-Requests": str(failed),
        "X-Batching-Enabled": batching_enabled(request),
    }
    return StreamingResponse(_chunks(archive), media_type="application/zip", headers=headers)


async def _archive(request: Request, bodies: list[Any], timeout: float | None) -> tuple[IO[bytes], int]:
    """Written clip by clip as they are made. It is sent when it is whole: only then is `X-Failed-Requests` known."""
    shared = job(request, timeout, Priority.BULK)
    archive: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed when it has been sent
    lines: list[dict[str, Any]] = []
    try:
        async with asyncio.TaskGroup() as group:
            clips = deque(group.create_task(_clip(request, n, body, shared)) for n, body in enumerate(bodies, 1))
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
                while clips:
                    made = await clips.popleft()
                    await asyncio.to_thread(file.writestr, made.name, made.content)
                    lines.append(made.line)
                manifest = json.dumps(lines, indent=2, ensure_ascii=False).encode()
                file.writestr("manifest.json", manifest, zipfile.ZIP_DEFLATED)
    except BaseException:
        archive.close()
        raise
    return archive, sum(line["status"] != "ok" for line in lines)


async def _clip(request: Request, number: int, body: Any, shared: Job) -> Made:
    try:
        wanted = _parsed(body)
        rendering = wanted.rendering(wanted.format)
        clip = await parts(request).synthesizer.speak(wanted.speech(), shared)
        content = await rendered(clip.audio, rendering, clip.pcm16)
    except KokoroError as error:
        return _failed(number, body, error)
    name = f"tts_{number:03}_{clip.voice}.{wanted.format}"
    return Made(name, content, _line(number, name, body, duration=round(clip.seconds, 3), status="ok", error=None))


def _parsed(body: Any) -> TTSRequest:
    try:
        return TTSRequest.model_validate(body)
    except ValidationError as error:
        raise InvalidInput(in_words(error.errors())[0]) from error


def _failed(number: int, body: Any, error: KokoroError) -> Made:
    name = f"error_{number:03}.txt"
    said = str(_field(body, "text") or "")
    quoted = said if len(said) <= QUOTED else said[:QUOTED] + "…"
    content = f"{error.code}: {error.message}\n\n{quoted}\n".encode("utf-8", "replace")
    return Made(name, content, _line(number, name, body, duration=None, status="error", error=error.message))


def _line(number: int, name: str, body: Any, **facts: Any) -> dict[str, Any]:
    asked = {key: _field(body, key) for key in ("text", "voice", "speed")}
    defaults = {key: TTSRequest.model_fields[key].default for key in asked}
    return (
        {"index": number, "file": name} | {k: asked[k] if asked[k] is not None else defaults[k] for k in asked} | facts
    )


def _field(body: Any, key: str) -> Any:
    return body.get(key) if isinstance(body, dict) else None


async def _chunks(archive: IO[bytes]) -> AsyncIterator[bytes]:
    with archive:
        archive.seek(0)
        while chunk := await asyncio.to_thread(archive.read, CHUNK):
            yield chunk
