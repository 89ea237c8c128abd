"""`/jobs`: books and lists that take minutes or hours, behind all who wait for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel

from kokoro_server.api.disconnect import cancel_on_disconnect
from kokoro_server.api.middleware.shutdown import RunningRequests
from kokoro_server.api.middleware.stream_slots import take_place
from kokoro_server.api.routes.jobs import forms
from kokoro_server.api.routes.jobs.files import file_response
from kokoro_server.api.routes.jobs.watching import Watches
from kokoro_server.api.routes.tts import get_services
from kokoro_server.api.schemas.jobs import BookRequest, ItemsRequest, JobAnswer, JobList, ListRequest, Preview, answer
from kokoro_server.api.schemas.speech import ErrorAnswer
from kokoro_server.audio.encode import FORMATS
from kokoro_server.callers.current import caller
from kokoro_server.errors import Forbidden, NoSuchJob
from kokoro_server.longform.books.names import file_stem
from kokoro_server.longform.books.options import BookFormat
from kokoro_server.longform.jobs.job import Job, JsonObject
from kokoro_server.longform.jobs.service import Jobs
from kokoro_server.longform.jobs.work import MEDIA_TYPES

router = APIRouter(prefix="/jobs", tags=["jobs"])

BINARY = {"schema": {"type": "string", "format": "binary"}}
FORMAT = (
    f"Of a book: {', '.join(get_args(BookFormat))}; absent, m4b. "
    f"Of a list: {', '.join(FORMATS)}; absent, wav, or flac in shards."
)
FORM: JsonObject = {
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "required": ["file"],
            "properties": {
                "file": {"type": "string", "format": "binary", "description": f"With its name: {forms.ALLOWED}"},
                **ListRequest.model_json_schema()["properties"],
                **BookRequest.model_json_schema()["properties"],
                "format": {"type": "string", "description": FORMAT, "examples": ["mp3"]},
            },
        }
    },
    "application/json": {"schema": ItemsRequest.model_json_schema()},
}
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "Unknown voice or language, or a format that is not installed here"},
    403: {"model": ErrorAnswer, "description": "This server takes no jobs (JOBS_PATH)"},
    404: {"model": ErrorAnswer, "description": "There is no such job"},
    409: {"model": ErrorAnswer, "description": "It is not so far yet, or has not failed"},
    413: {"model": ErrorAnswer, "description": "The upload is too large (MAX_UPLOAD_SIZE)"},
    422: {"model": ErrorAnswer, "description": "A field is wrong, or the document cannot be read"},
    429: {"model": ErrorAnswer, "description": "Too many jobs (MAX_JOBS); Retry-After says when to come back"},
    503: {"model": ErrorAnswer, "description": "The disk is nearly full; Retry-After says when to come back"},
}
JobId = Annotated[str, Path(description="As `POST /jobs` has answered.")]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: ERRORS[status] for status in statuses}


def get_jobs(request: Request) -> Jobs:
    jobs: Jobs | None = request.app.state.jobs
    if jobs is None:
        raise Forbidden("this server takes no jobs: its setting JOBS_PATH must name a folder for them")
    return jobs


async def _json(make: Callable[[], BaseModel], status: int = 200) -> Response:
    """Written in a thread: a book may have thousands of chapters."""
    content = await asyncio.to_thread(lambda: make().model_dump_json())
    return Response(content, status, media_type="application/json")


async def _job(job: Job, jobs: Jobs, status: int = 200) -> Response:
    return await _json(partial(answer, job, jobs.keep_s), status)


@router.post(
    "/preview",
    response_model=Preview,
    responses=errors(400, 403, 413, 422, 429, 503),
    openapi_extra={"requestBody": {"required": True, "content": FORM}},
)
async def preview(request: Request) -> Response:
    """What a file is, and how long it will be, without making a job. It takes the same form as `POST /jobs`."""
    jobs = get_jobs(request)
    async with forms.sent(request, get_services(request)) as sent, jobs.uploading(sent.name) as upload:
        await sent.save(upload.path)
        about = await cancel_on_disconnect(request.receive, jobs.describe(upload, sent.options, keep=False))
    return await _json(partial(Preview, name=sent.name, **about))


@router.post(
    "",
    status_code=202,
    response_model=JobAnswer,
    responses=errors(400, 403, 413, 422, 429, 503),
    openapi_extra={"requestBody": {"required": True, "content": FORM}},
)
async def create(request: Request) -> Response:
    """Make an audiobook of a document, or a clip of each line of a list.

    A file is sent as a form, with `file` and the fields for books or those for lists (`voice`, `format`, `shards`).
    Lines may also come as JSON, in `items`. The job goes on after a restart of the server.
    """
    jobs = get_jobs(request)
    await jobs.admit(caller.get())
    async with forms.sent(request, get_services(request)) as sent, jobs.uploading(sent.name) as upload:
        await sent.save(upload.path)
        about = await cancel_on_disconnect(request.receive, jobs.describe(upload, sent.options, keep=True))
        job = await jobs.add(upload, caller.get(), sent.kind, sent.options, about)
    response = await _job(job, jobs, 202)
    response.headers["Location"] = f"/jobs/{job.id}"
    return response


@router.get("", response_model=JobList, responses=errors(403))
async def list_jobs(request: Request) -> Response:
    """The caller's jobs, the newest first, without their chapters."""
    jobs = get_jobs(request)
    found = await jobs.all(caller.get())
    return await _json(lambda: JobList(jobs=[answer(job, jobs.keep_s) for job in found]))


@router.get("/{id}", response_model=JobAnswer, responses=errors(403, 404))
async def get(id: JobId, request: Request) -> Response:
    """How far a job is, and what came of it."""
    jobs = get_jobs(request)
    return await _job(await jobs.get(id, caller.get()), jobs)


@router.get(
    "/{id}/events",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Events `job`, each with the job", "content": {"text/event-stream": {}}},
        **errors(403, 404, 429),
    },
)
async def events(id: JobId, request: Request) -> Response:
    """The job as server-sent events: now, on each change, and at its end. `deleted` tells that it is gone."""
    jobs = get_jobs(request)
    job = await jobs.get(id, caller.get())
    take_place(request)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    watches: Watches = request.app.state.watches
    running: RunningRequests = request.app.state.running
    told = watches.events(jobs, job, lambda: running.stopping)
    return StreamingResponse(told, media_type="text/event-stream", headers=headers)


@router.get(
    "/{id}/chapters/{number}",
    response_class=FileResponse,
    responses={
        200: {"description": "The chapter", "content": {"audio/mpeg": BINARY}},
        **errors(403, 404, 409),
    },
)
async def chapter(
    id: JobId,
    number: Annotated[int, Path(ge=1, le=1_000_000)],
    request: Request,
    format: Annotated[Literal["mp3", "opus", "flac"], Query()] = "mp3",
) -> Response:
    """A chapter of a book that is spoken, also while the others are not."""
    jobs = get_jobs(request)
    job = await jobs.get(id, caller.get())
    found = next((each for each in job.about.get("chapters", ()) if each["number"] == number), None)
    if found is None:
        raise NoSuchJob(f"the job has no chapter {number}", field="number")
    made = jobs.chapter(job, caller.get(), number, found["title"], format)
    path = await cancel_on_disconnect(request.receive, made)
    name = f"{number:02} {file_stem(found['title'])}".strip() + f".{format}"
    headers = {"Cache-Control": "no-cache"}  # a chapter that was spoken anew sounds different
    return await file_response(request, path, name, MEDIA_TYPES[path.suffix], headers)


@router.get(
    "/{id}/result",
    response_class=FileResponse,
    responses={
        200: {"description": "The file", "content": {"application/octet-stream": BINARY}},
        **errors(403, 404, 409),
    },
)
async def result(id: JobId, request: Request) -> Response:
    """What was made: the audiobook, or a zip file. Parts of it can be asked for with `Range`."""
    return await _result(id, None, request)


@router.get(
    "/{id}/result/{name}",
    response_class=FileResponse,
    responses={
        200: {"description": "The file", "content": {"application/octet-stream": BINARY}},
        **errors(403, 404, 409),
    },
)
async def result_file(id: JobId, name: str, request: Request) -> Response:
    """Another file of the result, such as its subtitles."""
    return await _result(id, name, request)


# Players and download managers ask how long a file is before they fetch it.
router.add_api_route("/{id}/result", result, methods=["HEAD"], include_in_schema=False)
router.add_api_route("/{id}/result/{name}", result_file, methods=["HEAD"], include_in_schema=False)
router.add_api_route("/{id}/chapters/{number}", chapter, methods=["HEAD"], include_in_schema=False)


async def _result(id: str, name: str | None, request: Request) -> Response:
    jobs = get_jobs(request)
    path, file = jobs.result_file(await jobs.get(id, caller.get()), name)
    return await file_response(request, path, file["name"], file["media_type"])


@router.post("/{id}/resume", status_code=202, response_model=JobAnswer, responses=errors(403, 404, 409))
async def resume(id: JobId, request: Request) -> Response:
    """Let a job that has failed go on from where it was."""
    jobs = get_jobs(request)
    return await _job(await jobs.resume(id, caller.get()), jobs, 202)


@router.delete("/{id}", status_code=204, response_class=Response, responses=errors(403, 404))
async def delete(id: JobId, request: Request) -> Response:
    """Stop a job, and remove it with all its files."""
    await get_jobs(request).delete(id, caller.get())
    return Response(status_code=204)
