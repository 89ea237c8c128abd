"""`/jobs`: books and lists that take minutes or hours, with the lowest priority."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel

from kokoro_server.api.disconnect import cancel_on_disconnect
from kokoro_server.api.routes.jobs import forms
from kokoro_server.api.routes.jobs.files import file_response
from kokoro_server.api.routes.jobs.watching import Watches
from kokoro_server.api.schemas.jobs import BookRequest, ItemsRequest, JobAnswer, JobList, ListRequest, Preview, answer
from kokoro_server.api.speech import BINARY, Responses, error_responses, only
from kokoro_server.api.state import app_state, get_services
from kokoro_server.api.streaming import SSE, STREAMING_HEADERS, take_place
from kokoro_server.audio.formats import FORMATS
from kokoro_server.callers.current import caller
from kokoro_server.errors import Forbidden, NoSuchJob
from kokoro_server.longform.books.names import file_stem
from kokoro_server.longform.books.options import BookFormat
from kokoro_server.longform.jobs.job import Job
from kokoro_server.longform.jobs.service import Jobs
from kokoro_server.longform.jobs.work import MEDIA_TYPES
from kokoro_server.runtime.json import JsonObject

router = APIRouter(prefix="/jobs", tags=["jobs"])

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
ERRORS = error_responses(
    {
        400: "Unknown voice or language, or a format that is not installed here",
        403: "This server takes no jobs (JOBS_PATH)",
        404: "No such job",
        409: "The file is not made yet; or, to resume, the job has not failed",
        413: "The upload is too large (MAX_UPLOAD_SIZE)",
        416: "Range asks for bytes past the end of the file",
        422: "A field is wrong, or the document cannot be read",
        429: "Too many jobs (MAX_JOBS), uploads, documents or chapters at once; Retry-After says when to come back",
        503: "The disk is nearly full; Retry-After says when to come back",
    }
)
UPLOAD: JsonObject = {
    "responses": only(ERRORS, 400, 403, 413, 422, 429, 503),
    "openapi_extra": {"requestBody": {"required": True, "content": FORM}},
}
FILE: Responses = {200: {"description": "The file", "content": {"application/octet-stream": BINARY}}}
JobId = Annotated[str, Path(description="The `id` that `POST /jobs` returned.")]


def get_jobs(request: Request) -> Jobs:
    jobs = app_state(request).jobs
    if jobs is None:
        raise Forbidden("this server takes no jobs: its setting JOBS_PATH must name a folder for them")
    return jobs


JobsService = Annotated[Jobs, Depends(get_jobs)]


async def _callers_job(id: JobId, jobs: JobsService) -> Job:
    return await jobs.get(id, caller.get())


CallersJob = Annotated[Job, Depends(_callers_job)]


async def _json(make: Callable[[], BaseModel], status: int = 200) -> Response:
    """Written in a thread: a book may have thousands of chapters."""
    content = await asyncio.to_thread(lambda: make().model_dump_json())
    return Response(content, status, media_type="application/json")


async def _job(job: Job, jobs: Jobs, status: int = 200) -> Response:
    return await _json(partial(answer, job, jobs.keep_s), status)


@router.post("/preview", response_model=Preview, **UPLOAD)
async def preview(request: Request, jobs: JobsService) -> Response:
    """Describe a file and how long its audio will be, without making a job. The form is that of `POST /jobs`."""
    jobs.admit_document()
    async with forms.sent(request, get_services(request)) as sent, jobs.uploading(sent.name) as upload:
        await sent.save(upload.path)
        about = await cancel_on_disconnect(request.receive, jobs.describe(upload, sent.options, keep=False))
    return await _json(partial(Preview, name=sent.name, **about))


@router.post("", status_code=202, response_model=JobAnswer, **UPLOAD)
async def create(request: Request, jobs: JobsService) -> Response:
    """Make an audiobook of a document, or a clip of each line of a list.

    A file is sent as a form, with `file` and the fields for books or those for lists (`voice`, `format`, `shards`).
    Lines may also come as JSON, in `items`. A restart of the server does not end the job.
    """
    await jobs.admit(caller.get())
    jobs.admit_document()
    async with forms.sent(request, get_services(request)) as sent, jobs.uploading(sent.name) as upload:
        await sent.save(upload.path)
        about = await cancel_on_disconnect(request.receive, jobs.describe(upload, sent.options, keep=True))
        job = await jobs.add(upload, caller.get(), sent.kind, sent.options, about)
    response = await _job(job, jobs, 202)
    response.headers["Location"] = f"/jobs/{job.id}"
    return response


@router.get("", response_model=JobList, responses=only(ERRORS, 403))
async def list_jobs(jobs: JobsService) -> Response:
    """The caller's jobs, newest first, without their chapters."""
    found = await jobs.all(caller.get())
    return await _json(lambda: JobList(jobs=[answer(job, jobs.keep_s) for job in found]))


@router.get("/{id}", response_model=JobAnswer, responses=only(ERRORS, 403, 404))
async def get(job: CallersJob, jobs: JobsService) -> Response:
    """A job's state, progress and result."""
    return await _job(job, jobs)


@router.get(
    "/{id}/events",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Events `job`, each with the job", "content": {SSE: {}}},
        **only(ERRORS, 403, 404, 429),
    },
)
async def events(job: CallersJob, jobs: JobsService, request: Request) -> Response:
    """The job as server-sent events: at once, on each change, and at its end; `deleted` if it is removed."""
    take_place(request)
    watches: Watches = request.app.state.watches
    running = app_state(request).running
    job_events = watches.events(jobs, job, lambda: running.stopping)
    return StreamingResponse(job_events, media_type=SSE, headers=STREAMING_HEADERS)


@router.get(
    "/{id}/chapters/{number}",
    response_class=FileResponse,
    responses={
        200: {"description": "The chapter", "content": {"audio/mpeg": BINARY}},
        **only(ERRORS, 403, 404, 409, 416, 429, 503),
    },
)
async def chapter(
    id: JobId,
    number: Annotated[int, Path(ge=1, le=1_000_000)],
    request: Request,
    format: Annotated[Literal["mp3", "opus", "flac"], Query()] = "mp3",
) -> Response:
    """A chapter of a book, as soon as it is spoken."""
    jobs = get_jobs(request)
    job = await jobs.get(id, caller.get())
    found = next((each for each in job.about.get("chapters", ()) if each["number"] == number), None)
    if found is None:
        raise NoSuchJob(f"the job has no chapter {number}", field="number")
    made = jobs.chapter(job, caller.get(), number, found["title"], format)
    path = await cancel_on_disconnect(request.receive, made)
    name = f"{number:02} {file_stem(found['title'])}".strip() + f".{format}"
    headers = {"Cache-Control": "no-cache"}  # a chapter that is spoken again sounds different
    return await file_response(request, path, name, MEDIA_TYPES[path.suffix], headers)


@router.get("/{id}/result", response_class=FileResponse, responses=FILE | only(ERRORS, 403, 404, 409, 416))
async def result(job: CallersJob, jobs: JobsService, request: Request) -> Response:
    """The audiobook, or a zip file. `Range` asks for a part of the file."""
    path, file = jobs.result_file(job, None)
    return await file_response(request, path, file["name"], file["media_type"])


@router.get("/{id}/result/{name}", response_class=FileResponse, responses=FILE | only(ERRORS, 403, 404, 409, 416))
async def result_file(id: JobId, name: str, jobs: JobsService, request: Request) -> Response:
    """Another file of the result, such as its subtitles."""
    path, file = jobs.result_file(await jobs.get(id, caller.get()), name)
    return await file_response(request, path, file["name"], file["media_type"])


# Players and download managers ask how long a file is before they fetch it.
router.add_api_route("/{id}/result", result, methods=["HEAD"], include_in_schema=False)
router.add_api_route("/{id}/result/{name}", result_file, methods=["HEAD"], include_in_schema=False)
router.add_api_route("/{id}/chapters/{number}", chapter, methods=["HEAD"], include_in_schema=False)


@router.post("/{id}/resume", status_code=202, response_model=JobAnswer, responses=only(ERRORS, 403, 404, 409))
async def resume(id: JobId, jobs: JobsService) -> Response:
    """Let a failed job continue where it stopped."""
    return await _job(await jobs.resume(id, caller.get()), jobs, 202)


@router.delete("/{id}", status_code=204, response_class=Response, responses=only(ERRORS, 403, 404))
async def delete(id: JobId, jobs: JobsService) -> Response:
    """Stop a job and remove it with all its files."""
    await jobs.delete(id, caller.get())
    return Response(status_code=204)
