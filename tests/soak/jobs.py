"""Jobs, from their submission to their removal: a book or a list, spoken behind all other requests."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any
from zipfile import ZipFile

import httpx

from tests.soak.answers import Answer, BrokenOff, Client, FalseAnswer, ask, seconds_of
from tests.soak.requests import VOICES, Chance, text

LOOKS_EVERY = 0.5  # seconds
PASSES = (httpx.TransportError, BrokenOff)  # a connection that ends with the process behind it


def book(chance: Chance) -> str:
    """A small document in Markdown."""
    return "\n\n".join(f"# Chapter {n}\n\n{text(chance, 2)}\n\n{text(chance, 1)}" for n in (1, 2))


async def preview(client: Client, chance: Chance) -> Answer:
    answer = await ask(client, "/jobs/preview", files={"file": ("book.md", book(chance))})
    if answer.is_right and len(answer.json()["chapters"]) != 2:
        raise FalseAnswer(answer.content.decode()[:200])
    return answer


async def submit(client: Client, chance: Chance) -> Answer:
    form: dict[str, Any] = {"voice": chance.choice(VOICES), "format": chance.choice(("opus", "mp3", "m4b"))}
    if chance.random() < 0.5:
        return await ask(client, "/jobs", files={"file": ("book.md", book(chance))}, data=form)
    items = [{"id": f"line {n}", "text": text(chance), "voice": chance.choice(VOICES)} for n in range(3)]
    return await ask(client, "/jobs", {"items": items, "format": "flac"})


async def finished(client: Client, id: str, *, patient: bool = False) -> Answer:
    """The result of a job, once it is done, which is then removed. Raises FalseAnswer if the job fails.

    `patient` asks again after a connection has ended or a part of the server was away.
    """
    while (about := (await _insist(client, f"/jobs/{id}", patient)).json())["state"] != "done":
        if about["state"] == "failed":
            raise FalseAnswer(f"a job failed: {json.dumps(about['error'])}")
        await asyncio.sleep(LOOKS_EVERY)
    result = await _insist(client, f"/jobs/{id}/result", patient)
    name = about["result"]["files"][0]["name"]
    seconds = _seconds(name, result.content, about)
    await _insist(client, f"/jobs/{id}", patient, "DELETE")
    return Answer(result.status, seconds=seconds)


def _seconds(name: str, content: bytes, about: dict[str, Any]) -> float:
    if name.endswith(".zip"):
        with ZipFile(io.BytesIO(content)) as archive:
            clips = [each for each in archive.namelist() if each.endswith(".flac")]
            if len(clips) != 3 or len(set(clips)) != 3:
                raise FalseAnswer(f"a list of three became {archive.namelist()}")
            return sum(seconds_of(archive.read(each), "flac") for each in clips)
    if name.endswith((".mp3", ".opus")):
        return seconds_of(content, name.rpartition(".")[2])
    return float(about["result"]["seconds"])


async def _insist(client: Client, path: str, patient: bool, method: str = "GET") -> Answer:
    while True:
        try:
            answer = await ask(client, path, method=method)
            if answer.is_right or (method == "DELETE" and answer.status == 404 and patient):
                return answer
            if answer.status not in (429, 503) or not patient:
                raise FalseAnswer(f"{method} {path}: {answer.status} {answer.content[:200]!r}")
        except PASSES:
            if not patient:
                raise
        await asyncio.sleep(LOOKS_EVERY)


async def job(client: Client, chance: Chance) -> Answer:
    """From submission to result; the whole may take minutes. A client that leaves removes its job."""
    submitted = await submit(client, chance)
    if not submitted.is_right:
        return submitted
    id = submitted.json()["id"]
    try:
        return await finished(client, id)
    except BaseException:
        await ask(client, f"/jobs/{id}", method="DELETE")
        raise
