"""Uploads: the file of a form, and its fields as a request."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

from kokoro_server import languages
from kokoro_server.api.errors import validated
from kokoro_server.api.schemas.jobs import BookRequest, ItemsRequest, ListRequest
from kokoro_server.audio.encode import Output
from kokoro_server.errors import InvalidInput, KokoroError
from kokoro_server.longform.books.documents import SUFFIXES
from kokoro_server.longform.bulk import lines
from kokoro_server.longform.jobs.folders import FILE_MODE, safe_name, writable
from kokoro_server.longform.jobs.job import JobKind
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.services import Services

MAX_FIELDS = 200
MAX_FIELD_BYTES = 100_000
REPEATED = ("voice_of",)
MULTIPART = "multipart/form-data"
ALLOWED = f"a book ({' '.join(SUFFIXES)}) or a list ({' '.join(lines.SUFFIXES)})"


@dataclass(frozen=True, slots=True)
class Sent:
    """The content of a request. `items` are the lines of a list that came as JSON."""

    name: str
    kind: JobKind
    options: JsonObject
    file: IO[bytes] | None = None
    items: list[JsonObject] | None = None

    async def save(self, path: Path) -> None:
        with writable():
            await asyncio.to_thread(self._write, path)

    def _write(self, path: Path) -> None:
        path.touch(FILE_MODE)
        with path.open("wb") as target:
            if self.file:
                self.file.seek(0)
                shutil.copyfileobj(self.file, target, 1 << 20)
            for item in self.items or ():
                target.write(json.dumps(item).encode() + b"\n")


@asynccontextmanager
async def sent(request: Request, services: Services) -> AsyncIterator[Sent]:
    """Raises InvalidInput for wrong fields, UnknownVoice and UnknownLanguage."""
    await services.voices.refresh()  # another process may have just defined one
    if not request.headers.get("content-type", "").lower().startswith(MULTIPART):
        yield await _json(request, services)
        return
    _check_charset(request.headers["content-type"])
    async with AsyncExitStack() as stack:
        with writable():
            form = await _parsed(request, services.settings.spool_path)
        stack.push_async_callback(form.close)
        fields: JsonObject = {}
        upload: UploadFile | None = None
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                if name != "file":
                    raise InvalidInput("the file must be sent as file", field=name[:60])
                upload = value
            elif value and name in REPEATED:
                fields.setdefault(name, []).append(value)
            elif name in fields:
                raise InvalidInput("is given twice", field=name[:60])
            elif value:
                fields[name] = value
        if upload is None:
            raise InvalidInput(f"file: is missing: send {ALLOWED}, with its name", field="file")
        name = safe_name(upload.filename or "", "upload")
        kind = _kind(name)
        options = (
            _book(fields, services)
            if kind == "book"
            else _list(validated(ListRequest.model_validate, fields), services)
        )
        yield Sent(name, kind, options, upload.file)


async def _parsed(request: Request, folder: Path | None) -> FormData:
    if folder:
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    try:
        return await _FormParser(request, folder).parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from error


class _FormParser(MultiPartParser):
    """Keeps a large file in `folder`. Starlette's own parser takes the system's, which may be memory."""

    def __init__(self, request: Request, folder: Path | None) -> None:
        limits: Any = {"max_files": 1, "max_fields": MAX_FIELDS, "max_part_size": MAX_FIELD_BYTES}
        super().__init__(request.headers, request.stream(), **limits)
        self._folder = str(folder) if folder else None

    def on_headers_finished(self) -> None:
        super().on_headers_finished()
        if self._current_part.file is not None:
            kept = SpooledTemporaryFile(self.spool_max_size, dir=self._folder)  # noqa: SIM115
            self._files_to_close_on_error.append(kept)
            self._current_part.file.file = kept  # type: ignore[assignment]


def _check_charset(content_type: str) -> None:
    """Fields are decoded on the event loop, and some of Python's codecs take seconds for a field of allowed size."""
    charset = parse_options_header(content_type)[1].get(b"charset", b"utf-8")
    if charset.lower() not in (b"utf-8", b"utf8"):
        raise InvalidInput("the fields of a form must be UTF-8; Content-Type names another charset")


def _kind(name: str) -> JobKind:
    suffix = PurePath(name).suffix.lower()
    if suffix in lines.SUFFIXES:
        return "list"
    if suffix in SUFFIXES:
        return "book"
    raise InvalidInput(f"file: {name!r} is neither {ALLOWED.replace(' or ', ' nor ')}", field="file")


async def _json(request: Request, services: Services) -> Sent:
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"the body is neither {MULTIPART} with a file nor JSON with items ({error})", field="items"
        ) from error
    asked = validated(ItemsRequest.model_validate, body)
    return Sent("items.jsonl", "list", _list(asked, services), items=asked.items)


def _book(fields: JsonObject, services: Services) -> JsonObject:
    asked = validated(BookRequest.model_validate, fields)
    voices = {"voice": asked.voice, "dialogue_voice": asked.dialogue_voice}
    for field, voice in [*voices.items(), *(("voice_of", voice) for voice in asked.voice_of.values())]:
        if voice:
            _check_voice(voice, field, services)
    if asked.language and not languages.is_auto(asked.language):
        others = services.models.models.values() if services.models else ()
        spoken = (language for model in others for language in model.folder.card.spoken)
        languages.parse(asked.language, (*languages.LANGUAGES, *spoken))
    if asked.format == "m4b":
        Output("aac").check()
    return asked.model_dump()


def _list(asked: ListRequest, services: Services) -> JsonObject:
    if asked.voice is not None:
        _check_voice(asked.voice, "voice", services)
    options = asked.stored()
    Output(options["format"]).check()
    return options


def _check_voice(voice: str, field: str, services: Services) -> None:
    try:
        services.voices.canonical(voice)
    except KokoroError as error:
        raise type(error)(error.message, field=field) from error
