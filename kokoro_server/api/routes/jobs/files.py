"""Answers with a job's file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import FileResponse, JSONResponse
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from kokoro_server.api.errors import error_response
from kokoro_server.errors import BadRequest, Conflict, RangeTooFar

OPEN_FILES = Path("/dev/fd")
NUMBER = r"\d{1,18}"
RANGE = rf"({NUMBER}-({NUMBER})?|-{NUMBER})"
RANGES = re.compile(rf"\s*bytes\s*=\s*{RANGE}(\s*,\s*{RANGE})*\s*", re.IGNORECASE)
BOTH_ENDS = re.compile(rf"({NUMBER})-({NUMBER})")
NOT_PLAIN = re.compile(r'[^ -~]|["\\%]')


class JobFileResponse(FileResponse):
    """A range past the end of the file has an answer in the form of our errors; Starlette's is empty."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = False

        async def checked(message: Message) -> None:
            nonlocal refused
            if message.get("status") == RangeTooFar.status:
                refused = True
                await _range_too_far(Request(scope), Headers(raw=message["headers"]))(scope, receive, send)
            elif not refused:
                await send(message)

        await super().__call__(scope, receive, checked)


def _range_too_far(request: Request, headers: Headers) -> JSONResponse:
    size = headers["content-range"]
    message = f"Range asks for bytes past the end of the file, which has {size.rpartition('/')[2]} bytes"
    return error_response(request, RangeTooFar.status, RangeTooFar.code, message, "Range", {"Content-Range": size})


async def file_response(
    request: Request, path: Path, name: str, media_type: str, headers: Mapping[str, str] | None = None
) -> FileResponse:
    """Answers with a file under `name`. It is opened at once, so that deleting the job does not cut the answer off."""
    wanted = request.headers.get("range")
    if wanted is not None and not _is_range(wanted):
        raise BadRequest("Range must be of the form bytes=0-499, bytes=500- or bytes=-500", field="Range")
    try:
        file = await asyncio.to_thread(path.open, "rb")
    except FileNotFoundError:
        raise Conflict("the file has been removed from the server's disk", field="id") from None
    request.scope["on_end"].callback(file.close)
    opened = OPEN_FILES / str(file.fileno())
    content = opened if opened.exists() else path
    return JobFileResponse(content, media_type=media_type, headers={**_named(name), **(headers or {})})


def _is_range(header: str) -> bool:
    """Starlette's own answer to a wrong one is no JSON."""
    well_formed = RANGES.fullmatch(header) is not None
    return well_formed and all(int(first) <= int(last) for first, last in BOTH_ENDS.findall(header))


def _named(name: str) -> dict[str, str]:
    """The name as browsers read it, and in the old form, the only one that curl and wget know."""
    plain = NOT_PLAIN.sub("_", name)
    return {"Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=utf-8''{quote(name, safe='')}"}
