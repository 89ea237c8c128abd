from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import av
import numpy as np
import pytest
import soundfile

from kokoro_server.audio.loudness import LoudnessMeter, true_peaks
from kokoro_server.config.defaults import SpeechDefaults, speech_defaults
from kokoro_server.config.kinds import ALL_LANGUAGES
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import BadRequest, Conflict, G2PUnavailable, InvalidInput, NothingToSay
from kokoro_server.longform.books import work_folder
from kokoro_server.longform.books.book import Block, Book, Chapter
from kokoro_server.longform.books.options import BookFiles, BookFormat, Options
from kokoro_server.longform.books.passages import chapter_text
from kokoro_server.longform.books.production import BookResult, planned, produce
from kokoro_server.longform.books.speaking import BookProgress
from kokoro_server.longform.books.work_folder import CannotWrite
from kokoro_server.runtime.backoff import Backoff
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.speech_backend import Spoken
from tests.longform.books.doubles import LIMIT, Tones, book, paragraphs

WORD = re.compile(r"\w[\w'’-]*")
STAMP = re.compile(r"^\d+\n[\d:,]+ --> [\d:,]+$", re.MULTILINE)
NAMESPACES = {"opf": "http://www.idpf.org/2007/opf", "smil": "http://www.w3.org/ns/SMIL"}


@pytest.fixture(autouse=True)
def short_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kokoro_server.longform.books.passages.LIMIT", LIMIT)


async def make(
    wanted: Book, output: Path, backend: Tones | None = None, options: Options | None = None, **given: Any
) -> BookResult:
    format: BookFormat = given.pop("format", output.suffix[1:])
    keep = given.pop("keep_work", False)
    report = given.pop("report", lambda _progress: None)
    outputs = BookFiles(output, format, **given)
    folder = output.with_name(output.name + ".work")
    return await produce(wanted, options or Options(), outputs, backend or Tones(), folder, report, keep_work=keep)


class ElsewhereTones(Tones):
    """Of a server with defaults of its own."""

    async def defaults(self) -> SpeechDefaults:
        return SpeechDefaults({ALL_LANGUAGES: "bf_emma", "es": "em_alex"})


async def test_voices_that_are_not_named_are_the_servers() -> None:
    token = speech_defaults.set(SpeechDefaults({ALL_LANGUAGES: "af_bella", "es": "ef_dora"}))
    try:
        document = Book("Title", chapters=(Chapter("One", (Block("Hello."), Block("Hola.", language="es"))),))
        plan = await planned(document, Options(), ElsewhereTones())
    finally:
        speech_defaults.reset(token)
    assert [voice for passage in plan.passages for voice in passage.voices] == ["bf_emma", "em_alex"]


def words(wanted: Book) -> list[str]:
    return [word for chapter in wanted.chapters for word in WORD.findall(chapter_text(chapter))]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def probed(path: Path) -> dict[str, Any]:
    command = ["ffprobe", "-v", "error", "-show_chapters", "-show_streams", "-show_format", "-of", "json", str(path)]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def decoded(path: Path) -> np.ndarray[Any, Any]:
    """The samples as a player has them, who heeds edit lists."""
    to_floats = av.AudioResampler("flt", "mono")
    with av.open(str(path)) as container:
        frames = [frame for frame in container.decode(audio=0) if frame.pts >= 0]
    return np.concatenate([made.to_ndarray().ravel() for frame in frames for made in to_floats.resample(frame)])


@pytest.mark.parametrize("format", ["m4b", "mp3", "opus", "flac"])
async def test_a_book_has_chapters_tags_and_cover(tmp_path: Path, format: BookFormat) -> None:
    wanted, path = book(2), tmp_path / f"book.{format}"
    result = await make(wanted, path)
    titles = [chapter.title for chapter in wanted.chapters]
    with av.open(str(path)) as container:
        marks = [(c["metadata"]["title"], c["start"] * float(c["time_base"])) for c in container.chapters()]
        tags = {name.lower(): value for name, value in (container.metadata | container.streams[0].metadata).items()}
        pictures = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    assert [title for title, _ in marks] == titles
    assert marks == [(title, pytest.approx(start, abs=0.002)) for title, start in result.chapters]
    assert tags["title"] == tags["album"] == wanted.title
    assert tags["artist"].replace(";", ", ") == "Ann Öberg, B. Li"
    assert tags["genre"] == "Audiobook"
    assert wanted.cover
    assert pictures == [wanted.cover.content]
    assert names(tmp_path) == [path.name]
    if shutil.which("ffprobe") is None:
        pytest.skip("ffprobe is not installed")
    found = probed(path)
    assert [chapter["tags"]["title"] for chapter in found["chapters"]] == titles
    assert [stream["codec_name"] for stream in found["streams"] if stream["disposition"]["attached_pic"]] == ["png"]
    assert float(found["format"]["duration"]) == pytest.approx(result.seconds, abs=0.1)


async def test_a_chapter_starts_with_its_first_word(tmp_path: Path) -> None:
    result = await make(book(), tmp_path / "book.m4b")
    audio = np.abs(decoded(tmp_path / "book.m4b"))
    assert len(audio) / SAMPLE_RATE == pytest.approx(result.seconds, abs=0.1)
    for _, start in result.chapters:
        place = round(start * SAMPLE_RATE)
        onset = np.flatnonzero(audio[place:] > 0.02)[0] / SAMPLE_RATE
        assert onset <= 0.05
        assert audio[max(0, place - SAMPLE_RATE) : place].max(initial=0.0) < 0.02  # the pause is in the chapter before


async def test_all_that_is_written_is_said_and_shown_in_order(tmp_path: Path) -> None:
    wanted, backend = book(), Tones(parallel=1)
    await make(wanted, tmp_path / "book.flac", backend, subtitles=tmp_path / "book.srt")
    shown = STAMP.sub("", (tmp_path / "book.srt").read_text())
    assert shown.split() == " ".join(map(chapter_text, wanted.chapters)).split()


async def test_a_folder_has_a_file_for_each_chapter(tmp_path: Path) -> None:
    result = await make(book(2), tmp_path / "out", format="opus", by_chapter=True)
    assert names(tmp_path / "out") == ["01 The Sea — “1”.opus", "02 The Sea — “2”.opus"]
    assert result.files == tuple(tmp_path / "out" / name for name in names(tmp_path / "out"))
    with av.open(str(result.files[1])) as container:
        tags = container.streams[0].metadata
    assert (tags["TITLE"], tags["ALBUM"], tags["track"]) == ("The Sea — “2”", "Of Ships & Seas", "2")


@pytest.mark.parametrize("loudness", [-18.0, -14.0, None])
async def test_a_book_is_as_loud_as_wanted(tmp_path: Path, loudness: float | None) -> None:
    await make(book(1), tmp_path / "book.flac", options=Options(loudness=loudness))
    audio, _ = soundfile.read(tmp_path / "book.flac", dtype="float32")
    meter = LoudnessMeter()
    meter.add(audio)
    assert meter.integrated == pytest.approx(
        -18.0 if loudness is None else loudness, abs=5 if loudness is None else 0.3
    )
    assert 20 * np.log10(true_peaks(audio.astype(np.float64)).max()) <= -3.0


class Noise(Tones):
    """Encoders change its peaks more than those of tones. It has little above 4 kHz, as speech."""

    async def speak(self, speech: Speech) -> Spoken:
        spoken = await super().speak(speech)
        noise = np.random.default_rng(len(speech.written)).normal(scale=2500, size=len(spoken.pcm) // 2)
        samples = np.convolve(noise, np.hanning(9), "same")
        return dataclasses.replace(spoken, pcm=samples.astype("<i2").tobytes())


@pytest.mark.parametrize("format", ["m4b", "mp3", "opus", "flac"])
async def test_peaks_stay_under_the_limit_when_they_are_encoded(tmp_path: Path, format: BookFormat) -> None:
    path = tmp_path / f"book.{format}"
    await make(book(1), path, Noise(), Options(loudness=-13.0))
    assert 20 * np.log10(np.abs(decoded(path)).max()) <= -3.0


async def test_what_was_spoken_before_a_cancellation_is_kept(tmp_path: Path) -> None:
    await make(book(), tmp_path / "whole.m4b")
    first, second = Tones(parallel=2), Tones(parallel=2)
    seen: list[BookProgress] = []

    def report(progress: BookProgress) -> None:
        seen.append(progress)
        if len(seen) == 4:
            task.cancel()

    task = asyncio.create_task(make(book(), tmp_path / "book.m4b", first, report=report))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "book.m4b").exists()
    result = await make(book(), tmp_path / "book.m4b", second)
    assert result.kept >= 3
    assert result.spoken == len(second.spoken) == 6 - result.kept
    assert (tmp_path / "book.m4b").read_bytes() == (tmp_path / "whole.m4b").read_bytes()


async def test_only_what_changes_is_spoken_again(tmp_path: Path) -> None:
    path, old = tmp_path / "book.flac", book()
    await make(old, path, keep_work=True)
    changed = dataclasses.replace(old.chapters[1], blocks=paragraphs("All of it is new."))
    new = dataclasses.replace(old, chapters=(old.chapters[0], changed, old.chapters[2]))
    for wanted, options, version, spoken in (
        (old, Options(loudness=-20.0), "1", 0),
        (new, Options(), "1", 1),
        (new, Options(voice="af_bella"), "1", 5),
        (new, Options(voice="af_bella"), "2", 5),
    ):
        assert (await make(wanted, path, Tones(version), options, keep_work=True)).spoken == spoken


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-100], lambda data: data[:200] + b"\0" + data[201:], lambda _: b""]
)
async def test_a_damaged_passage_is_made_anew(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "book.flac"
    await make(book(), path, keep_work=True)
    whole = path.read_bytes()
    victim = min((tmp_path / "book.flac.work" / "stretches").iterdir())
    victim.write_bytes(damage(victim.read_bytes()))
    result = await make(book(), path)
    assert result.spoken == 1
    assert path.read_bytes() == whole


async def test_two_do_not_make_the_same_book(tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as group:
        entered = asyncio.Event()
        first = group.create_task(make(book(), tmp_path / "book.flac", report=lambda _progress: entered.set()))
        await entered.wait()
        with pytest.raises(Conflict, match="another process makes this book"):
            await make(book(), tmp_path / "book.flac")
    assert first.result().spoken == 6


async def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(work_folder.Path, "write_bytes", full)
    with pytest.raises(CannotWrite, match=r"No space left on device; make room and run the command again"):
        await make(book(), tmp_path / "book.flac")


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match="cannot be written: Not a directory"):
        await make(book(), tmp_path / "file" / "book.flac")


async def test_what_cannot_be_written_is_told_before_anything_is_spoken(tmp_path: Path) -> None:
    (tmp_path / "folder.mp3").mkdir()
    (tmp_path / "file").touch()
    backend, output = Tones(), tmp_path / "book.mp3"
    with pytest.raises(CannotWrite, match=r"folder\.mp3: cannot be written: Is a directory"):
        await make(book(), tmp_path / "folder.mp3", backend)
    with pytest.raises(CannotWrite, match=r"file/a\.srt: cannot be written"):
        await make(book(), output, backend, subtitles=tmp_path / "file" / "a.srt")
    with pytest.raises(CannotWrite, match="file: cannot be written: File exists"):
        await make(book(), tmp_path / "file", backend, format="mp3", by_chapter=True)
    assert backend.spoken == []
    await make(book(), output, backend, subtitles=tmp_path / "new" / "a.srt")
    assert names(tmp_path / "new") == ["a.srt"]


async def test_somebody_elses_files_in_the_work_folder_stay(tmp_path: Path) -> None:
    work = tmp_path / "book.mp3.work"
    work.mkdir()
    (work / "thesis.txt").write_text("mine")
    await make(book(), tmp_path / "book.mp3")
    assert names(work) == ["thesis.txt"]


async def test_what_has_nothing_to_say_does_not_fail_the_book(tmp_path: Path) -> None:
    silent = Chapter("Ornaments", paragraphs("* * *", "❦"))
    strange = Chapter("Strange", (Block("жжж", language="fr"), Block("Two words.")))
    result = await make(Book("B", (silent, strange, Chapter("", paragraphs("Three more words.")))), tmp_path / "b.flac")
    assert [title for title, _ in result.chapters] == ["Strange", "Chapter 3"]
    assert "nothing is read in 'Ornaments'" in result.notes
    assert "3 characters of chapter 2 cannot be spoken and were left out" in result.notes
    with pytest.raises(NothingToSay):
        await make(Book("B", (silent,)), tmp_path / "b.flac")


async def test_a_book_of_which_nothing_can_be_said_is_no_file(tmp_path: Path) -> None:
    backend = Tones()
    backend.failures = [NothingToSay("text has nothing that can be spoken", field="text")]
    with pytest.raises(NothingToSay, match="nothing in the book can be spoken"):
        await make(Book("B", (Chapter("C", paragraphs("مرحبا")),)), tmp_path / "b.m4b", backend)
    assert not (tmp_path / "b.m4b").exists()


async def test_a_part_that_restarts_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kokoro_server.longform.books.speaking.BACKOFF", Backoff(0.001, longest=30.0))
    backend = Tones()
    backend.failures = [G2PUnavailable("restarting"), G2PUnavailable("restarting")]
    assert (await make(book(), tmp_path / "b.flac", backend)).spoken == 6
    backend.failures = [InvalidInput("a pause is written [pause:1.5s]", field="text")]
    with pytest.raises(BadRequest, match="chapter 1, 'The Sea — “1”': a pause is written"):
        await make(book(), tmp_path / "b.flac", backend)


async def test_many_are_spoken_at_once_and_progress_is_told(tmp_path: Path) -> None:
    backend, seen = Tones(parallel=3), list[BookProgress]()
    await make(book(), tmp_path / "b.flac", backend, report=seen.append)
    assert backend.most_at_once == 3
    speaking = [progress for progress in seen if progress.phase == "speaking"]
    assert [progress.done for progress in speaking] == sorted(progress.done for progress in speaking)
    assert speaking[0].left is None
    assert (speaking[-1].done, speaking[-1].left) == (speaking[-1].total, 0.0)
    assert seen[-1].phase == "writing"
    assert seen[-1].done == seen[-1].total


async def test_chosen_chapters_alone(tmp_path: Path) -> None:
    result = await make(book(), tmp_path / "b.flac", options=Options(chapters=frozenset({1, 2})))
    assert [title for title, _ in result.chapters] == ["The Sea — “2”", "The Sea — “3”"]
    with pytest.raises(InvalidInput, match="there is no chapter 4: the book has 3"):
        await make(book(), tmp_path / "b.flac", options=Options(chapters=frozenset({3})))


async def test_a_book_to_read_along(tmp_path: Path) -> None:
    wanted = book(2)
    wanted = dataclasses.replace(
        wanted, chapters=(*wanted.chapters, Chapter("Inner <&>", paragraphs("It’s “<so>” & so.", "* * *"), level=2))
    )
    result = await make(wanted, tmp_path / "b.mp3", read_along=tmp_path / "b.epub")
    with zipfile.ZipFile(tmp_path / "b.epub") as archive:
        first = archive.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
        assert archive.read("mimetype") == b"application/epub+zip"
        pages = {name: archive.read(name) for name in archive.namelist()}
    package = ElementTree.fromstring(pages["EPUB/package.opf"])
    manifest = {item.get("id"): item for item in package.iterfind(".//opf:item", NAMESPACES)}
    assert {f"EPUB/{item.get('href')}" for item in manifest.values()} == {
        name for name in pages if name.startswith("EPUB/") and name != "EPUB/package.opf"
    }
    durations = {
        meta.get("refines"): float((meta.text or "")[:-1])
        for meta in package.iterfind(".//opf:meta[@property='media:duration']", NAMESPACES)
    }
    assert durations[None] == pytest.approx(result.seconds, abs=0.01)
    ElementTree.fromstring(pages["EPUB/nav.xhtml"])
    spoken: list[str] = []
    for reference in package.iterfind(".//opf:itemref", NAMESPACES):
        item = manifest[reference.get("idref")]
        overlay = manifest[item.get("media-overlay")]
        text = ElementTree.fromstring(pages[f"EPUB/{item.get('href')}"])
        spans = {span.get("id"): "".join(span.itertext()) for span in text.iter("{http://www.w3.org/1999/xhtml}span")}
        smil = ElementTree.fromstring(pages[f"EPUB/{overlay.get('href')}"])
        spoken += _checked_overlay(smil, spans, durations[f"#{overlay.get('id')}"])
    assert WORD.findall(" ".join(spoken)) == words(wanted)


def _checked_overlay(smil: ElementTree.Element, spans: dict[str | None, str], seconds: float) -> Sequence[str]:
    """The sentences in the order in which they are heard: all that have a name, without a gap between them."""
    named, now = list[str](), 0.0
    for par in smil.iterfind(".//smil:par", NAMESPACES):
        text, audio = par.find("smil:text", NAMESPACES), par.find("smil:audio", NAMESPACES)
        assert text is not None
        assert audio is not None
        named.append((text.get("src") or "").partition("#")[2])
        begin, end = (float((audio.get(name) or "")[:-1]) for name in ("clipBegin", "clipEnd"))
        assert begin == now < end
        now = end
    assert named == list(spans)
    assert now == pytest.approx(seconds, abs=0.002)
    return [spans[name] for name in named]
