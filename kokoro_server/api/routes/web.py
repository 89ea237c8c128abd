"""The web page at `/`, the documentation at `/docs`, and their files under `/web/`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)

INDEX = "index.html"
DOCS = "docs.html"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The page may connect to this server only. A frame may show it where the page around it has the same origin, as behind
# Home Assistant's ingress.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "media-src blob:",  # chapters and the documentation's examples are played from memory
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
)


@dataclass(frozen=True, slots=True)
class WebFile:
    content: bytes
    media_type: str
    etag: str


@cache
def web_files() -> dict[str, WebFile]:
    """Every file of the page by its path, read once."""
    return dict(_read_folder(files("kokoro_server") / "web"))


def _read_folder(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, WebFile]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read_folder(entry, f"{prefix}{entry.name}/")
        elif media_type := MEDIA_TYPES.get(PurePath(entry.name).suffix):
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            yield prefix + entry.name, WebFile(content, media_type, etag)


@router.api_route("/", methods=["GET", "HEAD"])
def index(request: Request) -> Response:
    return _file_response(request, INDEX)


@router.api_route("/docs", methods=["GET", "HEAD"])
def docs(request: Request) -> Response:
    return _file_response(request, DOCS)


@router.api_route("/web/{name:path}", methods=["GET", "HEAD"])
def web_file(request: Request, name: str) -> Response:
    if not name:  # where Kokoro-FastAPI has its page
        return RedirectResponse("../")
    return _file_response(request, name)


def _file_response(request: Request, name: str) -> Response:
    file = web_files().get(name)
    if file is None:
        raise HTTPException(404, "there is no such file")
    headers = {
        "ETag": file.etag,
        "Cache-Control": "no-cache",  # cached, but validated each time: an upgrade shows at once
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "SAMEORIGIN",  # the same as frame-ancestors, for older browsers
    }
    cached = (tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(","))
    if file.etag in cached:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers | {"Content-Type": file.media_type})
