"""What a process of a bulk run does with the answers of a server."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.client import BrokenOff
from kokoro_server.errors import SetupError
from kokoro_server.longform.bulk import clips
from kokoro_server.longform.bulk.clips import read_clips
from kokoro_server.longform.bulk.makers import http_worker as asking
from kokoro_server.longform.bulk.makers.http import reach
from kokoro_server.longform.bulk.makers.http_worker import Asker, ServerLost, WorkerLine, WorkerSetup
from kokoro_server.longform.bulk.outputs import prepare
from kokoro_server.synthesis.http_backend import HttpBackend
from tests.longform.bulk.runs import records, texts, write
from tests.longform.bulk.scripted import Scripted, scripted
from tests.servers import ROOT, free_port
from tests.services.bulk import main


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setattr(asking, "BUSY_S", 0.0)
    monkeypatch.setattr(asking, "RETRY_AFTER_S", 0.01)
    with scripted() as server:
        yield server


def make(url: str, out: Path, wanted: list[str]) -> list[dict[str, Any]]:
    """The outcomes, by line."""
    (out / ".bulk").mkdir(parents=True)
    prepare(out)
    answers = io.BytesIO()
    lines = [WorkerLine(n, f"{n}.wav", json.dumps({"text": text}).encode()) for n, text in enumerate(wanted)]
    Asker(WorkerSetup(url, str(out), 1, 32), answers).make(lines)
    told = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert sorted(each["index"] for each in told) == list(range(len(wanted)))  # each once
    return sorted(told, key=lambda each: each["index"])


def test_what_is_refused_or_broken_off_is_asked_for_again(server: Scripted, tmp_path: Path) -> None:
    wanted = ["one", "busy", "wrong", "fails at first", "fails always", "two", "breaks off", "three"]
    told = make(server.url, tmp_path / "out", wanted)
    failed = {wanted[each["index"]]: each["failed"] for each in told if "failed" in each}
    assert {text: (each["code"], each["tries"], each["lasting"]) for text, each in failed.items()} == {
        "wrong": ("invalid_input", 1, True),
        "fails always": ("engine_error", 2, False),
    }
    for number, text in enumerate(wanted):
        path = tmp_path / "out" / f"{number}.wav"
        assert path.exists() == (text not in failed)
        assert text in failed or path.read_text() == text
    assert server.asked["one"] == 1  # what was made before the answer broke off is kept
    assert server.asked["busy"] == 4
    assert not list((tmp_path / "out" / ".bulk" / "unfinished").iterdir())


def test_an_answer_that_always_breaks_off_fails_its_lines(server: Scripted, tmp_path: Path) -> None:
    told = make(server.url, tmp_path / "out", ["good", "breaks off always"])
    assert told[0]["made"]["duration"] == 1.5
    assert (told[1]["failed"]["code"], told[1]["failed"]["tries"]) == ("broken_off", 2)


def test_a_server_that_takes_fewer_lines_gets_fewer(server: Scripted, tmp_path: Path) -> None:
    server.most = 3
    told = make(server.url, tmp_path / "out", [f"text {n}" for n in range(10)])
    assert all("made" in each for each in told)
    assert sum(server.requests) == 10
    assert max(server.requests) <= 3


def test_a_server_that_is_gone_is_waited_for_and_then_given_up(
    server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "LOST_S", 0.2)
    with pytest.raises(ServerLost, match="the same command goes on"):
        make(f"http://127.0.0.1:{free_port()}", tmp_path / "out", ["text"])


def test_a_server_that_cannot_speak_is_waited_for(server: Scripted, tmp_path: Path) -> None:
    """As while its G2P or its engine is restarted."""
    wanted = ["one", "away for a while", "away as well"]
    assert ["made" in each for each in make(server.url, tmp_path / "out", wanted)] == [True] * 3
    assert [server.asked[text] for text in wanted] == [1, 5, 5]


def test_what_a_server_cannot_speak_for_long_fails_alone(
    server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "LOST_S", 0.5)
    failed, made = make(server.url, tmp_path / "out", ["away always", "one"])
    assert (failed["failed"]["code"], failed["failed"]["lasting"]) == ("g2p_unavailable", False)
    assert server.asked["away always"] > 2
    assert "made" in made


@pytest.mark.parametrize(
    "head",
    [
        b'{"index": 0, "bytes": -1}\n',
        b'{"index": 0, "bytes": 1e3}\n',
        b'{"index": 0, "bytes": 99999999999999}\n',
        b'{"index": "0", "bytes": 1}\n',
        b'{"index": 0}\n',
        b"[]\n",
        b"[" * 100_000 + b"\n",
        b"<html>\n",
    ],
    ids=["negative", "fraction", "huge", "index", "none", "list", "deep", "html"],
)
def test_an_answer_of_another_server_is_refused(head: bytes) -> None:
    with pytest.raises(BrokenOff, match="none of a Kokoro Server"):
        list(read_clips(iter([head, b"x" * 100])))


def test_a_line_without_an_end_is_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clips, "MAX_LINE", 1000)
    with pytest.raises(BrokenOff, match="too long"):
        list(read_clips(itertools.repeat(b"x" * 100)))


def test_lines_go_together_up_to_a_count_and_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "REQUEST_BYTES", 100)
    lines = [WorkerLine(n, "x", b"." * size).text() for n, size in enumerate((10, 10, 10, 10, 95, 300, 5, 5))]
    found = [[line.index for line in each] for each in asking.requests(iter([*lines, asking.END]), 3)]
    assert found == [[0, 1, 2], [3], [4], [5], [6, 7]]


def test_an_answer_in_any_chunks_is_read_and_one_that_is_cut_is_noticed() -> None:
    content = b'{"index": 0, "bytes": 5}\nab\ncd{"index": 1, "bytes": 0}\n{"index": 2, "bytes": 1}\nx'
    for size in (1, 2, 7, 100):
        chunks = [content[start : start + size] for start in range(0, len(content), size)]
        assert [(told["index"], audio) for _, told, audio in read_clips(iter(chunks))] == [
            (0, b"ab\ncd"),
            (1, b""),
            (2, b"x"),
        ]
    for cut in (3, 27, len(content) - 1):
        with pytest.raises(BrokenOff):
            list(read_clips(iter([content[:cut]])))


def test_the_process_ends_with_who_started_it(server: Scripted, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kokoro_server.longform.bulk.makers.http_worker"]
    job = {"url": server.url, "out": str(tmp_path), "threads": 1, "lines": 32}
    sent = json.dumps(job).encode() + b"\n" + WorkerLine(0, "0.wav", b'{"text": "one"}').text()  # and no end
    done = subprocess.run(command, input=sent, capture_output=True, cwd=ROOT, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


def test_a_folder_that_cannot_be_written_ends_the_run_in_plain_words(server: Scripted, tmp_path: Path) -> None:
    lines = texts(3)
    out = tmp_path / "out"
    out.mkdir()
    (out / "clip-0001.wav").mkdir()
    source = str(write(tmp_path / "in.jsonl", lines))
    with pytest.raises(SetupError, match=r"clip-0001.wav.*cannot be written: Is a directory; what is made is kept"):
        main([source, str(out), "--url", server.url, "--processes", "1"])
    (out / "clip-0001.wav").rmdir()
    assert main([source, str(out), "--url", server.url, "--processes", "2"]) == 0
    assert [record["words"][0]["text"] for record in records(out / "manifest.jsonl")] == [
        line["text"] for line in lines
    ]


def test_a_server_without_the_endpoint_is_told(tmp_path: Path) -> None:
    source = str(write(tmp_path / "in.jsonl", texts(1)))
    with scripted(has_bulk=False) as server, pytest.raises(SetupError, match="has no POST /tts/bulk: update it"):
        main([source, str(tmp_path / "out"), "--url", server.url])


async def test_a_server_that_is_no_kokoro_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.longform.bulk.scripted.HEALTH", {"status": "ok"})
    with scripted() as server:
        with pytest.raises(SetupError, match="is it a Kokoro Server"):
            await reach(server.url, None)
        with pytest.raises(SetupError, match="is it a Kokoro Server"):
            async with HttpBackend.connect(server.url, None):
                pass
