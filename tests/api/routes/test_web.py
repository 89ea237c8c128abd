"""The page's files over HTTP."""

from __future__ import annotations

import posixpath
import re

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from kokoro_server.api.routes import web


@pytest.fixture
def client() -> TestClient:
    app = FastAPI(docs_url=None, redoc_url=None)
    app.include_router(web.router)
    return TestClient(app)


def test_the_page_and_everything_it_names_is_served(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    named = set(re.findall(r'(?:src|href)="(web/[^"]+)"', page.text))
    assert {"web/app.js", "web/style.css", "web/book/jobs.css", "web/icon.svg"} <= named
    for path in named:
        assert client.get(f"/{path}").status_code == 200


def test_every_module_that_is_imported_is_served_as_a_script(client: TestClient) -> None:
    found, new = set[str](), {"app.js"}
    while new:
        name = new.pop()
        answer = client.get(f"/web/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/javascript")
        found.add(name)
        imported = re.findall(r'from "(\.[^"]+)"', answer.text)
        new |= {posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in imported} - found
    assert {"api.js", "book/tab.js", "book/card.js"} < found


@pytest.mark.parametrize("path", ["/", "/docs", "/web/app.js", "/web/docs.js", "/web/style.css"])
def test_nothing_may_come_from_elsewhere(client: TestClient, path: str) -> None:
    answer = client.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'self'" in policy  # Home Assistant's ingress shows the page in a frame
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert not re.search(r"https?://(?!www\.w3\.org)", answer.text)


def test_an_unchanged_file_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/web/app.js")
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        again = client.get("/web/app.js", headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get("/web/app.js", headers={"If-None-Match": '"other"'}).content == first.content


def test_head_tells_the_size_alone(client: TestClient) -> None:
    answer = client.head("/")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(client.get("/").content))


@pytest.mark.parametrize(
    "path", ["/web/none.js", "/web/..%2Fapp.py", "/web/%2E%2E/app.py", "/web/book", "/web/book/../../app.py"]
)
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404
