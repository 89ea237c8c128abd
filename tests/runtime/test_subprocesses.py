"""Children run our code alone: in the working folder lie files of strangers with the names of modules."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from kokoro_server.audio.encoders import AacEncoder
from kokoro_server.longform.bulk import verify
from kokoro_server.longform.jobs.uploads import DocumentReader
from kokoro_server.runtime import subprocesses
from kokoro_server.runtime.event_loop import run_on_loop
from kokoro_server.runtime.subprocesses import popen_python, start_python
from tests.longform.books.doubles import VOICES

OPTIONS = {"chapters": None, "voice": None, "language": None, "speed": 1.0, "dialogue_voice": None}


@pytest.fixture(autouse=True)
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Exists once one of the strangers' modules was run."""
    for name in ("av", "lxml", "pydantic", "numpy", "sqlite3"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\nraise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "ran"


def test_the_aac_encoder_runs_nothing_from_the_working_folder(ran: Path) -> None:
    encoder = AacEncoder(24_000)
    written = encoder.write(np.zeros(24_000, np.float32)) + encoder.finish()
    assert written[:1] == b"\xff"  # ADTS
    assert not ran.exists()


async def test_the_reader_of_uploads_runs_nothing_from_the_working_folder(ran: Path, tmp_path: Path) -> None:
    upload = tmp_path / "sea.txt"
    upload.write_text("The sea is calm tonight.\n")
    about = await DocumentReader().read(
        upload, "sea.txt", OPTIONS | {"voice_of": {}, "loudness": None}, VOICES, tmp_path / "book.json"
    )
    assert about
    assert not ran.exists()  # noqa: ASYNC240


def test_the_process_that_listens_to_clips_runs_nothing_from_the_working_folder(
    ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("multiprocessing", "pickle", "signal"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.setattr(verify, "find_spec", lambda _name: True)
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    with verify.Verifier("base") as verifier:
        assert verifier._process.submit(os.getpid).result() != os.getpid()
    assert not ran.exists()


def test_a_process_that_a_child_starts_runs_nothing_from_the_working_folder(ran: Path, tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import av_of_a_stranger'])"
    (tmp_path / "av_of_a_stranger.py").write_text("open('ran', 'w').close()\n")
    (folder := tmp_path / "ours").mkdir()
    (folder / "grandparent.py").write_text(code)
    child = popen_python("grandparent", environ={"PYTHONPATH": str(folder)})
    child.communicate()
    assert child.returncode == 0
    assert not ran.exists()


def test_a_child_inherits_nothing_but_what_it_is_given(tmp_path: Path) -> None:
    (folder := tmp_path / "ours").mkdir()
    (folder / "listing.py").write_text("import os\nprint([os.path.exists(f'/dev/fd/{fd}') for fd in (90, 91)])")

    async def listed() -> bytes:
        child = await start_python("listing", environ={"PYTHONPATH": str(folder)}, pass_fds=(91,))
        return (await child.communicate())[0]

    async def check() -> None:
        assert await listed() == b"[False, True]\n"

    with (tmp_path / "of-a-library").open("wb") as file:
        for descriptor in (90, 91):
            os.dup2(file.fileno(), descriptor, inheritable=True)
        try:
            run_on_loop(check())
        finally:
            os.closerange(90, 92)


def test_every_python_process_is_started_in_a_known_place() -> None:
    """A new place must run nothing from the working folder either, and have its test here."""
    package = Path(subprocesses.__file__).parents[1]
    starts = re.compile(r"sys\.executable|start_python\(|popen_python\(|get_context\(|set_start_method|ProcessPool")
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if starts.search(path.read_text("utf-8"))}
    assert found == {
        "runtime/subprocesses.py",  # with -P, for those below
        "audio/encoders.py",
        "g2p/child.py",
        "longform/bulk/makers/http.py",
        "longform/jobs/uploads.py",
        "server/processes/server_process.py",
        "assets/sources.py",  # pip, in a new folder
        "cli/bench.py",  # in the folder of the source code
        "g2p/service/workers.py",  # forked
        "longform/bulk/verify.py",  # with PYTHONSAFEPATH
        "cli/service.py",  # with -P, in the file of a service
        "cli/screen_reader.py",  # with -P, in a script
        "cli/sinks.py",  # with -P, on Windows
    }
