from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import av
import pytest

from kokoro_server.cli import CommandFailed, audiobook, say
from kokoro_server.cli import main as cli
from kokoro_server.config.settings import Settings
from kokoro_server.errors import InvalidInput
from tests.longform.books.doubles import Tones
from tests.servers import Server

PAGE = """\
<html lang="en"><head><title>Of Ships</title></head><body>
<h1>One</h1><p>The first ship sailed.<sup><a href="#n1" role="doc-noteref">1</a></sup></p>
<h1>Two</h1><p>“Land!” cried Ann. The second one did not.</p>
<aside role="doc-footnote" id="n1">In the year 1700.</aside></body></html>"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("ships.html", "ships.txt", "ships.epub"):
        (tmp_path / name).write_text(PAGE)
    return tmp_path / "ships.html"


@pytest.fixture
def speaker(monkeypatch: pytest.MonkeyPatch) -> Tones:
    """Who speaks in place of the model."""
    tones = Tones()

    @asynccontextmanager
    async def instead(*_: object) -> AsyncIterator[Tones]:
        yield tones

    monkeypatch.setattr(audiobook, "open_backend", instead)
    return tones


def parsed(*arguments: str) -> Namespace:
    return cli._parser().parse_args(["say", *arguments])


def run(*arguments: str) -> int:
    return say.run(Settings(), parsed(*arguments))


@pytest.mark.parametrize(
    ("arguments", "found", "is_book"),
    [
        ("ships.epub -o b.m4b", "ships.epub", True),
        ("ships.html -o b.mp3", "ships.html", True),
        ("ships.txt -o chapters", "ships.txt", True),
        ("ships.txt --dry-run", "ships.txt", True),
        ("-f ships.txt -o b.m4b", "ships.txt", True),
        ("-f ships.txt -o b.mp3 --chapters 1", "ships.txt", True),
        ("-f ships.txt -o b.mp3", None, False),
        ("-f ships.txt -o b.wav", None, False),
        ("-f - -o b.wav", None, False),
        ("ships.html -o b.wav", "ships.html", False),
        ("ships.html", "ships.html", False),
        ("Hello. -o b.mp3", None, False),
        ("missing.txt", None, False),
    ],
)
def test_what_is_a_book(page: Path, arguments: str, found: str | None, is_book: bool) -> None:
    options = parsed(*arguments.split())
    document = audiobook.document(options)
    assert document == (Path(found) if found else None)
    assert audiobook.is_wanted(options, document) is is_book


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("missing.epub -o b.m4b", "missing.epub: there is no such file"),
        ("-f missing.html -o b.m4b", "missing.html: there is no such file"),
        ("missing.txt -o b.m4b", "missing.txt: there is no such file"),
        ("Hello. --chapters 1-2", "--chapters is for books: name a document"),
        ("ships.html -o b.wav --chapters 1", "b.wav: a book is a .m4b .mp3 .opus .flac file, or a folder of chapters"),
        ("ships.html --keep-work", "-o FILE says where the book goes"),
        ("ships.html -o b.m4b --format mp3", "--format is for a folder of chapters"),
        ("ships.html -o b.m4b --subtitles b.txt", "b.txt: subtitles are .srt or .vtt files"),
        ("ships.html -o b.m4b --read-along b.pdf", "b.pdf: a book to read along must be an .epub file"),
        ("ships.html --explain", "--explain takes a text, not a document"),
        ("-f ships.epub -o b.m4b --read-along ships.epub", "is the document itself"),
        ("ships.epub -o b.m4b --read-along ./ships.epub", "is the document itself"),
    ],
)
def test_mistakes_are_told_before_anything_slow(page: Path, arguments: str, message: str) -> None:
    with pytest.raises(CommandFailed) as raised:
        run(*arguments.split())
    assert message in raised.value.message


@pytest.mark.parametrize("wrong", ["0", "5-3", "x", "1-2-3", ""])
def test_chapters_are_numbers_from_one(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("a.epub", "--chapters", wrong)
    assert "is not like 3, 3-5, 1,3-5 or 7-" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "wrong"), [("--loudness", "-5"), ("--loudness", "loud"), ("--voice-of", "Alice")])
def test_other_options_are_checked(option: str, wrong: str) -> None:
    with pytest.raises(SystemExit):
        parsed("a.epub", f"{option}={wrong}")


def test_a_dry_run_tells_what_it_would_become(
    page: Path, speaker: Tones, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.iterdir())
    assert run("ships.html", "--dry-run", "-o", "b.m4b") == 0
    told = capsys.readouterr().out
    assert "Of Ships (en)" in told
    for part in ("1  One", "2  Two", "characters", "of audio", "left out: ", "making it takes about"):
        assert part in told
    assert sorted(tmp_path.iterdir()) == before


def test_chapters_and_cast_are_as_asked_for(page: Path, speaker: Tones, tmp_path: Path) -> None:
    assert run("ships.html", "-o", "b.m4b", "--chapters", "2-", "--voice-of", "Ann=af_bella", "-s", "1.2") == 0
    (speech,) = speaker.spoken
    assert "[voice:af_bella]“Land!”[/voice] cried Ann." in speech.written
    assert (speech.voice, speech.speed) == ("af_heart", 1.2)
    with av.open(str(tmp_path / "b.m4b")) as container:
        assert [chapter["metadata"]["title"] for chapter in container.chapters()] == ["Two"]
    with pytest.raises(InvalidInput, match="there is no chapter 3: the book has 2"):
        run("ships.html", "-o", "b.m4b", "--chapters", "3")


def test_folders_whose_names_have_dots_are_books_of_their_own(page: Path, speaker: Tones, tmp_path: Path) -> None:
    for name in ("Vol. 1", "Vol. 2"):
        assert run("ships.html", "-o", name, "--format", "flac", "--keep-work") == 0
        assert len([*(tmp_path / name).glob("*.flac")]) == 2
    assert {path.name for path in tmp_path.glob("*.work")} == {"Vol. 1.work", "Vol. 2.work"}


def test_a_server_speaks_a_book_and_what_is_kept_is_used_again(
    page: Path, tiny_server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    arguments = ("ships.html", "-o", "b.flac", "--url", tiny_server.url, "--keep-work", "--dialogue-voice", "bf_emma")
    assert run(*arguments) == 0
    whole = (tmp_path / "b.flac").read_bytes()
    assert "spoken=2 kept=0" in caplog.text
    assert run(*arguments, "--read-along", "along.epub") == 0
    assert "spoken=0 kept=2" in caplog.text
    assert (tmp_path / "b.flac").read_bytes() == whole
    assert (tmp_path / "along.epub").stat().st_size > 10_000
