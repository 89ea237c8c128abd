"""Fetches the files of a model from Hugging Face, over plain HTTPS: nothing that is fetched is run.

A repository is described by `GET /api/models/OWNER/NAME/revision/main?blobs=true`: its commit, and for each file the
size and a hash. Files come from `GET /OWNER/NAME/resolve/COMMIT/PATH`, which leads elsewhere by redirects.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from filelock import FileLock, Timeout

from kokoro_server.assets import files
from kokoro_server.assets.models import card
from kokoro_server.errors import AssetError
from kokoro_server.runtime.backoff import Backoff

log = logging.getLogger(__name__)

FOLDER = "hub"  # of the cache: what has been fetched of models that are not whole
USUAL = "https://huggingface.co"
REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
PATH = re.compile(r"(?:voices/)?[A-Za-z0-9_][\w. -]{0,150}", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
MAX_BYTES = 5_000_000_000
MAX_FILES = 1_100  # a thousand voices, and some more
MAX_LISTING = 20_000_000  # bytes
MAX_SMALL = 50_000_000  # bytes of a file that has git's hash alone
TIMEOUT = httpx.Timeout(30.0)
MAX_REDIRECTS = 5
ATTEMPTS = 5  # without a new byte, after which a file is given up
BACKOFF = Backoff(1.0, longest=10.0)
KEPT_S = 7 * 86_400  # seconds for which a download that was cut off is kept


@dataclass(frozen=True, slots=True)
class HubFile:
    path: str
    size: int
    sha256: str | None  # of large files
    blob: str | None  # git's hash of small ones

    def problem(self, path: Path) -> str | None:
        if self.sha256:
            return files.fault(path, self.sha256, self.size)
        if (size := path.stat().st_size) != self.size:
            return f"wrong size, expected {self.size} bytes, got {size}"
        return "wrong content, by git's hash" if self.blob and _git_hash(path) != self.blob else None


@dataclass(frozen=True, slots=True)
class Repository:
    name: str
    commit: str
    files: tuple[HubFile, ...]


class HubClient:
    """`HF_ENDPOINT` and `HF_TOKEN` of the environment are those of Hugging Face's own tools."""

    def __init__(self, endpoint: str | None = None, token: str | None = None, backoff: Backoff = BACKOFF) -> None:
        self._endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or USUAL).rstrip("/")
        self._backoff = backoff
        token = token or os.environ.get("HF_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Accept-Encoding": "identity"}  # the hash is that of the bytes as they come
        self._http = httpx.Client(
            headers=headers,
            timeout=TIMEOUT,
            follow_redirects=True,
            max_redirects=MAX_REDIRECTS,
            event_hooks={"request": [self._only_as_safe]},
        )

    def __enter__(self) -> HubClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def fetch(self, name: str, patterns: tuple[str, ...], cache_dir: Path, *, with_card: bool = True) -> Path:
        """A folder in the cache with the files that match. What an earlier call has fetched is kept and checked.

        `with_card`: its model.toml is among them.
        """
        repository = self.repository(name, patterns, with_card=with_card)
        folder = cache_dir / FOLDER / repository.commit / repository.name.rpartition("/")[2].lower()
        with ExitStack() as stack, files.explain_os_errors(cache_dir):
            folder.mkdir(parents=True, exist_ok=True)
            os.utime(folder.parent)
            _remove_abandoned(cache_dir / FOLDER)
            stack.enter_context(_alone(folder.parent / "lock", name))
            missing = [each for each in repository.files if not (folder / each.path).is_file()]
            files.require_space(folder, sum(each.size for each in missing))
            for number, each in enumerate(missing, 1):
                log.info("fetching file=%s mb=%.1f number=%d of=%d", each.path, each.size / 1e6, number, len(missing))
                self._fetch(repository, each, folder / each.path)
        return folder

    def repository(self, name: str, patterns: tuple[str, ...], *, with_card: bool = True) -> Repository:
        if not REPO.fullmatch(name):
            raise AssetError(f"hf:{name:.100} is no repository; write hf:OWNER/NAME")
        try:
            with self._explained(name):
                described = self._listing(f"{self._endpoint}/api/models/{name}/revision/main?blobs=true", name)
        except _CutOff as error:
            raise AssetError(f"hf:{name}: {self._endpoint} cannot be reached ({error}); try again later") from error
        try:
            commit = str(described["sha"])
            wanted = [_file(entry) for entry in described["siblings"] if _is_wanted(entry["rfilename"], patterns)]
        except (KeyError, TypeError, ValueError) as error:
            raise AssetError(f"hf:{name}: the hub describes it in another form ({error!r:.100})") from error
        if not COMMIT.fullmatch(commit):
            raise AssetError(f"hf:{name}: the hub names no commit, but {commit!r:.60}")
        total = sum(each.size for each in wanted)
        if len(wanted) > MAX_FILES or total > MAX_BYTES:
            raise AssetError(
                f"hf:{name} has {len(wanted)} files of {total:,} bytes; up to {MAX_FILES} of {MAX_BYTES:,} are allowed"
            )
        if with_card and card.FILE not in {each.path for each in wanted}:
            raise AssetError(
                f"hf:{name} has no {card.FILE}; write one, as docs/guide/models.md shows, and name it with --card"
            )
        return Repository(name, commit, tuple(wanted))

    def _listing(self, url: str, name: str) -> Any:
        with self._http.stream("GET", url) as answer:
            self._check(answer, name)
            content = bytearray()
            for part in answer.iter_bytes():
                content += part
                if len(content) > MAX_LISTING:
                    raise AssetError(f"hf:{name}: its list of files has more than {MAX_LISTING:,} bytes")
        try:
            return json.loads(content)
        except ValueError as error:
            raise AssetError(f"hf:{name}: the hub does not answer in JSON; is {self._endpoint} one?") from error

    def _fetch(self, repository: Repository, file: HubFile, target: Path) -> None:
        """Goes on where an earlier attempt was cut off. The file gets its name when it is whole and right."""
        target.parent.mkdir(exist_ok=True)
        unfinished = target.with_name(f".{target.name}.unfinished")
        url = f"{self._endpoint}/{repository.name}/resolve/{repository.commit}/{quote(file.path)}"
        failures, started_again = 0, False
        while True:
            before = unfinished.stat().st_size if unfinished.exists() else 0
            try:
                with self._explained(repository.name):
                    self._append(url, file, unfinished, repository.name)
            except _CutOff as error:
                failures = 1 if unfinished.exists() and unfinished.stat().st_size > before else failures + 1
                if failures >= ATTEMPTS:
                    raise AssetError(
                        f"hf:{repository.name}: {file.path} cannot be fetched ({error}); the same command goes on from "
                        "there"
                    ) from error
                log.warning("the download was cut off, going on file=%s error=%s", file.path, error)
                time.sleep(self._backoff.wait(failures))
                continue
            problem = file.problem(unfinished)
            if problem is None:
                break
            unfinished.unlink()
            if started_again:
                raise AssetError(
                    f"hf:{repository.name}: {file.path}: {problem}, twice; the hub is not to be trusted now"
                )
            started_again = True
        unfinished.replace(target)

    def _append(self, url: str, file: HubFile, unfinished: Path, name: str) -> None:
        """Raises _CutOff while bytes are missing. Never writes more than the file should have."""
        have = unfinished.stat().st_size if unfinished.exists() else 0
        if have >= file.size:
            unfinished.touch()
            return
        headers = {"Range": f"bytes={have}-"} if have else {}
        with self._http.stream("GET", url, headers=headers) as answer:
            if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                unfinished.unlink()
                raise _CutOff("the hub does not go on where it was cut off")
            self._check(answer, name)
            goes_on = answer.status_code == httpx.codes.PARTIAL_CONTENT
            if goes_on and not answer.headers.get("content-range", "").startswith(f"bytes {have}-"):
                raise _CutOff("the hub goes on at another place")
            with unfinished.open("ab" if goes_on else "wb") as output:
                written = have if goes_on else 0
                for part in answer.iter_bytes():  # as they come: a size would lose the last bytes before a cut
                    written += len(part)
                    if written > file.size:
                        output.close()
                        unfinished.unlink()
                        raise AssetError(f"hf:{name}: {file.path} has more than the {file.size:,} bytes announced")
                    output.write(part)
        if written < file.size:
            raise _CutOff(f"{written:,} of {file.size:,} bytes came")

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except (httpx.NetworkError, httpx.RemoteProtocolError, httpx.TimeoutException) as error:
            raise _CutOff(f"{type(error).__name__}: {error!s:.100}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise AssetError(f"hf:{name} cannot be fetched ({type(error).__name__}: {error!s:.200})") from error

    def _check(self, answer: httpx.Response, name: str) -> None:
        status, page = answer.status_code, f"{self._endpoint}/{name}"
        if answer.is_success:
            return
        gated = answer.headers.get("x-error-code") == "GatedRepo"
        if gated or status == httpx.codes.FORBIDDEN:
            raise AssetError(
                f"hf:{name} is for those who have accepted its terms: do so at {page}, and set HF_TOKEN to your token"
            )
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND):
            raise AssetError(f"hf:{name}: there is no such repository or file, or it is private (HF_TOKEN): see {page}")
        if status == httpx.codes.TOO_MANY_REQUESTS or answer.is_server_error:
            raise _CutOff(f"the hub answers {status}")
        raise AssetError(f"hf:{name} cannot be fetched: the hub answers {status}")

    def _only_as_safe(self, request: httpx.Request) -> None:
        if request.url.scheme != "https" and urlsplit(self._endpoint).scheme == "https":
            raise httpx.UnsupportedProtocol(f"the hub leads to {request.url.host} without encryption")


class _CutOff(Exception):
    """Another attempt may help."""


def discard(folder: Path) -> None:
    """What `fetch` has returned is no longer needed."""
    shutil.rmtree(folder.parent, ignore_errors=True)


def _remove_abandoned(home: Path) -> None:
    for commit in home.iterdir():
        if time.time() - commit.stat().st_mtime > KEPT_S:
            log.info("removing a download that was not finished path=%s", commit)
            shutil.rmtree(commit)


@contextmanager
def _alone(path: Path, name: str) -> Iterator[None]:
    try:
        with FileLock(path, timeout=0):
            yield
    except Timeout as error:
        raise AssetError(f"hf:{name} is being fetched by another process; wait for it") from error


def _is_wanted(path: object, patterns: tuple[str, ...]) -> bool:
    """Only plain names can be: they become names of files here."""
    if not isinstance(path, str) or not any(path.count("/") == p.count("/") and fnmatchcase(path, p) for p in patterns):
        return False
    if not PATH.fullmatch(path):
        raise ValueError(f"a file is named {path!r:.80}")
    return True


def _file(entry: dict[str, Any]) -> HubFile:
    large = entry.get("lfs") or {}
    size, digest, blob = entry["size"], large.get("sha256"), entry.get("blobId")
    if type(size) is not int or size < 0 or (large and large.get("size", size) != size):
        raise ValueError(f"size of {entry['rfilename']!r:.80} is {size!r:.20}")
    if not (_is_hex(digest, 64) or (digest is None and _is_hex(blob, 40) and size <= MAX_SMALL)):
        raise ValueError(f"{entry['rfilename']!r:.80} has no hash")
    return HubFile(entry["rfilename"], size, digest, blob)


def _is_hex(value: object, digits: int) -> bool:
    return isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{digits}}}", value) is not None


def _git_hash(path: Path, sha1: Callable[..., Any] = hashlib.sha1) -> str:
    content = path.read_bytes()  # small: large files have a sha256
    digest: str = sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
    return digest
