"""Answers with a job's file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import FileResponse

from kokoro_server.errors import BadRequest, Conflict

OPEN_FILES = Path("/dev/fd")
NUMBER = r"\d{1,18}"
RANGE = rf"({NUMBER}-({NUMBER})?|-{NUMBER})"
RANGES = re.compile(rf"\s*bytes\s*=\s*{RANGE}(\s*,\s*{RANGE})*\s*", re.IGNORECASE)
BOTH_ENDS = re.compile(rf"({NUMBER})-({NUMBER})")
NOT_PLAIN = re.compile(r'[^ -~]|["\\%]')


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
    return FileResponse(content, media_type=media_type, headers={**_named(name), **(headers or {})})


def _is_range(header: str) -> bool:
    """Starlette's own answer to a wrong one is no JSON."""
    well_formed = RANGES.fullmatch(header) is not None
    return well_formed and all(int(first) <= int(last) for first, last in BOTH_ENDS.findall(header))


def _named(name: str) -> dict[str, str]:
    """The name as browsers read it, and in the old form, the only one that curl and wget know."""
    plain = NOT_PLAIN.sub("_", name)
    return {"Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=utf-8''{quote(name, safe='')}"}
