"""`/jobs` over HTTP, on a real server process with the tiny model."""

from __future__ import annotations

import io
import json
import re
import signal
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile

from kokoro_server.config.settings import Settings
from kokoro_server.server.app import create_app
from tests import tiny
from tests.longform.books.library import alice, epub, page
from tests.servers import TINY, Server, running, wait_for

PATIENCE = 240  # seconds
TEXT = "CHAPTER I\n\nThe sea was calm. It shone.\n\nCHAPTER II\n\nThe wind rose, and “Ho!” said Jack. “Hey!” said Jack."
KEYS = {"API_KEYS": "ann=key-of-ann,bob=key-of-bob"}


def send(
    server: Server, content: bytes | str, name: str = "sea.txt", path: str = "/jobs", **given: Any
) -> httpx.Response:
    headers = given.pop("headers", None)
    data = content.encode() if isinstance(content, str) else content
    url = server.url + path
    return httpx.post(url, files={"file": (name, data)}, data=given, headers=headers, timeout=PATIENCE)


def until_ended(server: Server, id: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while True:
        job: dict[str, Any] = httpx.get(f"{server.url}/jobs/{id}", headers=headers, timeout=PATIENCE).json()
        if job["state"] in ("done", "failed"):
            return job
        assert time.monotonic() < deadline, job
        time.sleep(0.1)


def events(server: Server, id: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    with httpx.stream("GET", f"{server.url}/jobs/{id}/events", timeout=PATIENCE) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
    return found


def test_from_an_upload_to_an_audiobook(tiny_server: Server) -> None:
    preview = send(tiny_server, TEXT, path="/jobs/preview").json()
    assert [chapter["title"] for chapter in preview["chapters"]] == ["CHAPTER I", "CHAPTER II"]
    assert preview["speakers"] == [{"name": "Jack", "lines": 2}]
    answer = send(tiny_server, TEXT, voice_of=["Jack=am_adam"], format="mp3", subtitles="vtt", chapters="2")
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert answer.headers["location"] == f"/jobs/{job['id']}"
    assert (job["kind"], job["name"], job["title"]) == ("book", "sea.txt", "sea")
    assert job["options"]["voice_of"] == {"Jack": "am_adam"}
    told = events(tiny_server, job["id"])
    assert {name for name, _ in told} == {"job"}
    assert told[-1][1]["state"] == "done", told[-1]
    done = httpx.get(f"{tiny_server.url}/jobs/{job['id']}").json()
    assert done == told[-1][1]
    assert [(each["number"], each["done"], each["start"]) for each in done["chapters"]] == [(2, True, 0.0)]
    assert done["progress"]["fraction"] == 1.0
    assert done["expires"]
    names = [(file["name"], file["media_type"]) for file in done["result"]["files"]]
    assert names == [("sea.mp3", "audio/mpeg"), ("sea.vtt", "text/vtt")]
    whole = httpx.get(tiny_server.url + done["result"]["files"][0]["url"])
    assert len(whole.content) == done["result"]["files"][0]["bytes"]
    assert 'filename="sea.mp3"' in whole.headers["content-disposition"]
    head = httpx.head(tiny_server.url + done["result"]["files"][0]["url"])
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(whole.content)))
    part = httpx.get(tiny_server.url + done["result"]["files"][0]["url"], headers={"Range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, whole.content[100:200])
    assert abs(soundfile.info(io.BytesIO(whole.content)).duration - done["result"]["seconds"]) < 0.1
    assert httpx.get(tiny_server.url + done["result"]["files"][1]["url"]).text.startswith("WEBVTT")
    chapter = httpx.get(f"{tiny_server.url}/jobs/{job['id']}/chapters/2?format=flac")
    assert soundfile.info(io.BytesIO(chapter.content)).duration > 0.5
    assert 'filename="02 ' in chapter.headers["content-disposition"]
    # They are counted now and then.
    done_jobs = re.compile(r'^tts_jobs{state="done"} [1-9]', re.MULTILINE)
    wait_for(lambda: done_jobs.search(httpx.get(f"{tiny_server.url}/metrics").text))
    listed = httpx.get(f"{tiny_server.url}/jobs").json()["jobs"]
    assert job["id"] in [each["id"] for each in listed]
    for path, status in (("result/x.mp3", 404), ("chapters/1", 404), ("chapters/0", 422), ("chapters/x", 422)):
        assert httpx.get(f"{tiny_server.url}/jobs/{job['id']}/{path}").status_code == status, path
    assert httpx.post(f"{tiny_server.url}/jobs/{job['id']}/resume").status_code == 409
    assert httpx.delete(f"{tiny_server.url}/jobs/{job['id']}").status_code == 204
    for path in ("", "/events", "/result", "/chapters/2"):
        assert httpx.get(f"{tiny_server.url}/jobs/{job['id']}{path}").status_code == 404


def test_a_job_that_is_deleted_while_it_is_made(tiny_server: Server) -> None:
    job = send(tiny_server, alice(), "alice.epub").json()
    assert httpx.get(f"{tiny_server.url}/jobs/{job['id']}/result").status_code == 409
    assert httpx.get(f"{tiny_server.url}/jobs/{job['id']}/chapters/5").status_code == 409
    with httpx.stream("GET", f"{tiny_server.url}/jobs/{job['id']}/events", timeout=PATIENCE) as response:
        lines = response.iter_lines()
        assert next(lines) == "event: job"
        assert httpx.delete(f"{tiny_server.url}/jobs/{job['id']}").status_code == 204
        assert "event: deleted" in list(lines)
    folder = tiny_server.log.parent / "jobs" / job["id"]
    wait_for(lambda: not folder.exists())


def test_lists(tiny_server: Server) -> None:
    items = [{"id": "a", "text": "Hello."}, {"id": "b", "text": "Bye.", "voice": "nobody"}]
    answer = httpx.post(f"{tiny_server.url}/jobs", json={"items": items, "format": "flac"}, timeout=PATIENCE)
    assert answer.status_code == 202, answer.text
    lines = "id,text\na,Hello.\nb,Bye.\n"
    preview = send(tiny_server, lines, "x.csv", path="/jobs/preview").json()
    assert (preview["kind"], preview["lines"], preview["characters"]) == ("list", 2, 10)
    other = send(tiny_server, lines, "x.csv", shards="2").json()
    done = until_ended(tiny_server, answer.json()["id"])
    assert done["state"] == "done"
    assert (done["progress"]["lines"], done["progress"]["failed"]) == (2, 1)
    archive = zipfile.ZipFile(io.BytesIO(httpx.get(f"{tiny_server.url}/jobs/{done['id']}/result").content))
    assert archive.namelist() == ["a.flac", "failures.jsonl", "manifest.jsonl"]
    sharded = until_ended(tiny_server, other["id"])
    archive = zipfile.ZipFile(io.BytesIO(httpx.get(f"{tiny_server.url}/jobs/{sharded['id']}/result").content))
    assert archive.namelist() == ["manifest.jsonl", "shard-000000.tar"]
    assert httpx.get(f"{tiny_server.url}/jobs/{sharded['id']}/chapters/1").status_code == 404


@pytest.mark.parametrize(
    ("given", "status", "field"),
    [
        ({"name": "x.exe"}, 422, "file"),
        ({"name": ""}, 422, "file"),
        ({"name": "x.epub"}, 422, "file"),
        ({"content": ""}, 422, "file"),
        ({"content": "* * *"}, 422, "file"),
        ({"name": "x.jsonl", "content": "\n"}, 422, "file"),
        ({"name": "x.csv", "content": "a,b\n1,2\n"}, 422, "file"),
        ({"voice": "nobody"}, 400, "voice"),
        ({"dialogue_voice": "nobody"}, 400, "dialogue_voice"),
        ({"voice_of": ["Jack=nobody"]}, 400, "voice_of"),
        ({"voice_of": ["Jack"]}, 422, "voice_of"),
        ({"language": "xx"}, 400, "language"),
        ({"language": "de"}, 400, "language"),  # which no model here has
        ({"speed": "fast"}, 422, "speed"),
        ({"speed": ["1", "2"]}, 422, "speed"),
        ({"format": "wav"}, 422, "format"),
        ({"chapters": "3"}, 422, "chapters"),
        ({"chapters": "2-1"}, 422, "chapters"),
        ({"loudness": "0"}, 422, "loudness"),
        ({"loudness": "nan"}, 422, "loudness"),
        ({"shards": "3"}, 422, "shards"),
        ({"subtitles": "srt", "by_chapter": "true"}, 422, None),
        ({"unknown": "1"}, 422, "unknown"),
    ],
)
def test_what_is_refused(tiny_server: Server, given: dict[str, Any], status: int, field: str | None) -> None:
    given = {"content": TEXT} | given
    answer = send(tiny_server, given.pop("content"), given.pop("name", "sea.txt"), "/jobs/preview", **given)
    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field), answer.text
    assert str(tiny_server.log.parent) not in answer.text


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"", "application/json", 422),
        (b"[]", "application/json", 422),
        (b'{"items": []}', "application/json", 422),
        (b'{"items": [1]}', "application/json", 422),
        (b'{"items": [{"id": "a"}], "format": "m4b"}', "application/json", 422),
        (b"x", "multipart/form-data", 400),
        (b"x", "multipart/form-data; boundary=b", 400),
        (b"x", "multipart/form-data; boundary=b; charset=punycode", 422),
        (b"--b\r\nContent-Disposition: form-data; name=voice\r\n\r\nx", "multipart/form-data; boundary=b", 422),
    ],
)
def test_bodies_that_are_refused(tiny_server: Server, body: bytes, content_type: str, status: int) -> None:
    answer = httpx.post(f"{tiny_server.url}/jobs", content=body, headers={"Content-Type": content_type})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]


def test_a_document_from_a_stranger(tiny_server: Server) -> None:
    bomb = epub({"OPS/package.opf": page("<p>x</p>" * 2_000_000)})
    answer = send(tiny_server, bomb, "../../etc/bomb.epub")
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith("bomb.epub:")


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory, shared_g2p: str) -> Iterator[Server]:
    settings = {"MAX_JOBS": "2", "MAX_UPLOAD_SIZE": "20000", "SERVER_PROCESSES": "2", "MAX_BODY_SIZE": "5000"}
    settings["G2P_SERVICE_URL"] = shared_g2p
    with running(TINY, tmp_path_factory.mktemp("limited") / "log", **KEYS, **settings) as server:
        yield server


def test_a_job_is_its_callers(limited: Server) -> None:
    ann, bob = ({"X-API-Key": f"key-of-{name}"} for name in ("ann", "bob"))
    jobs = [send(limited, TEXT, format="flac", headers=ann) for _ in range(2)]
    assert [answer.status_code for answer in jobs] == [202, 202]
    refused = send(limited, TEXT, headers=ann)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_jobs")
    assert refused.headers["retry-after"]
    assert send(limited, TEXT, path="/jobs/preview", headers=ann).status_code == 200  # nothing is kept of it
    own = f"/jobs/{jobs[0].json()['id']}"
    assert httpx.get(limited.url + own).status_code == 401
    for method, path in (("GET", own), ("GET", f"{own}/events"), ("DELETE", own), ("POST", f"{own}/resume")):
        assert httpx.request(method, limited.url + path, headers=bob).status_code == 404, (method, path)
    assert httpx.get(f"{limited.url}/jobs", headers=bob).json() == {"jobs": []}
    assert len(httpx.get(f"{limited.url}/jobs", headers=ann).json()["jobs"]) == 2
    assert until_ended(limited, jobs[0].json()["id"], ann)["state"] == "done"
    for answer in jobs:
        assert httpx.delete(f"{limited.url}/jobs/{answer.json()['id']}", headers=ann).status_code == 204
    assert send(limited, TEXT * 50, headers=ann, path="/jobs/preview").status_code == 200  # more than MAX_BODY_SIZE
    too_large = send(limited, TEXT * 500, headers=ann)
    assert (too_large.status_code, "MAX_UPLOAD_SIZE" in too_large.text) == (413, True)


def test_jobs_outlive_a_server_that_is_killed(limited: Server, tmp_path: Path, shared_g2p: str) -> None:
    """The last one on this server."""
    ann = {"X-API-Key": "key-of-ann"}
    chapters = [f"CHAPTER {n}\n\n" + f"This is what was told on day {n} by everybody. " * 4 for n in range(1, 5)]
    asked = {"name": "days.txt", "format": "flac", "headers": ann}
    id = send(limited, "\n\n".join(chapters), **asked).json()["id"]
    wait_for(lambda: httpx.get(f"{limited.url}/jobs/{id}", headers=ann).json()["progress"]["audio_seconds"])
    limited.stop(signal.SIGKILL)
    settings = {"JOBS_PATH": str(limited.log.parent / "jobs"), "G2P_SERVICE_URL": shared_g2p}
    with running(TINY, tmp_path / "log", **KEYS, **settings) as server:
        other = send(server, "\n\n".join(chapters), **asked).json()["id"]
        killed, undisturbed = until_ended(server, id, ann), until_ended(server, other, ann)
        assert killed["state"] == "done", killed["error"]
        assert killed["chapters"] == undisturbed["chapters"]
        assert killed["result"]["seconds"] == undisturbed["result"]["seconds"]
        content = httpx.get(f"{server.url}/jobs/{id}/result", headers=ann).content
        assert soundfile.info(io.BytesIO(content)).duration == pytest.approx(killed["result"]["seconds"], abs=0.001)


async def test_a_server_without_jobs(tmp_path: Path) -> None:
    app = create_app(
        Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None), lambda _: tiny.load(tmp_path)
    )
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        answer = await client.get("/jobs")
        assert (answer.status_code, "JOBS_PATH" in answer.text) == (403, True)
