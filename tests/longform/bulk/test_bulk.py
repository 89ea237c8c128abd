from __future__ import annotations

import io
import json
import logging
import tarfile
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import soundfile

from kokoro_server.cli import CommandFailed
from kokoro_server.config.defaults import SpeechDefaults, speech_defaults
from kokoro_server.errors import KokoroError, SetupError
from kokoro_server.longform.bulk.journal import Journal
from kokoro_server.longform.bulk.run import folder
from tests.longform.bulk.runs import Bulk, records, texts, tree, write


def test_each_line_is_a_file_and_the_manifest_lists_them_in_order(bulk: Bulk, tmp_path: Path) -> None:
    lines = texts(60)
    lines[7] |= {"format": "mp3", "speed": 1.5}
    source, out = write(tmp_path / "in.jsonl", lines), tmp_path / "out"
    assert bulk.run(source, out, "--format", "flac") == 0

    manifest = records(out / "manifest.jsonl")
    assert [record["id"] for record in manifest] == [line["id"] for line in lines]
    assert not (out / "failures.jsonl").exists()
    for line, record in zip(lines, manifest, strict=True):
        assert record["file"] == f"{line['id']}.{line.get('format', 'flac')}"
        assert {name: record[name] for name in line} == line
        info = soundfile.info(str(out / record["file"]))
        assert info.samplerate == 24_000
        assert abs(info.duration - record["duration"]) < 0.1
        assert record["words"][0]["text"] == line["text"]
    assert len(tree(out)) == len(lines) + 1


def test_the_default_voice_is_of_the_language_of_a_line(bulk: Bulk, tmp_path: Path) -> None:
    lines = [{"id": "en", "text": "Hello."}, {"id": "fr", "text": "Bonjour.", "language": "fr"}]
    source = write(tmp_path / "in.jsonl", lines)
    token = speech_defaults.set(SpeechDefaults({"en-US": "am_adam", "fr-FR": "ff_siwis"}))
    try:
        assert bulk.run(source, tmp_path / "out") == 0
        assert bulk.run(source, tmp_path / "named", "-v", "af_heart") == 0
    finally:
        speech_defaults.reset(token)
    assert [record["voice"] for record in records(tmp_path / "out" / "manifest.jsonl")] == ["am_adam", "ff_siwis"]
    assert {record["voice"] for record in records(tmp_path / "named" / "manifest.jsonl")} == {"af_heart"}


def test_wrong_lines_are_listed_with_number_and_field_and_cost_nobody_else(bulk: Bulk, tmp_path: Path) -> None:
    content = [
        b'\xef\xbb\xbf{"id": "good", "text": "Good."}',
        b'{"id": "fast", "text": "Fast.", "speed": 9}',
        b"",
        b'{"id": "who", "text": "Who?", "colour": "red"}',
        b"no json",
        b'["id"]',
        b'{"text": "nameless"}',
        b'{"id": "mute"}',
        b'{"id": "bytes", "text": "\xff"}',
        b'{"id": "subtitles", "text": "Hm.", "format": "srt"}',
        b'{"id": "rate", "text": "Hm.", "format": "mp3", "sample_rate": 12345}',
    ]
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_bytes(b"\n".join(content))
    with pytest.raises(CommandFailed, match=r"9 of 10 lines .*failures.jsonl"):
        bulk.run(source, out)

    assert [record["id"] for record in records(out / "manifest.jsonl")] == ["good"]
    failures = records(out / "failures.jsonl")
    assert [(failure["line"], failure["field"]) for failure in failures] == [
        (2, "speed"), (4, "colour"), (5, None), (6, None), (7, "id"), (8, "text"), (9, None), (10, "format"),
        (11, "sample_rate"),
    ]  # fmt: skip
    assert failures[0]["message"].startswith("line 2: speed: ")
    assert {failure["code"] for failure in failures} == {"invalid_input"}
    assert {failure["tries"] for failure in failures} == {1}


def test_what_fails_is_tried_once_more_and_then_listed(bulk: Bulk, tmp_path: Path) -> None:
    kinds = ("flaky one", "broken one", "silence", "fine")
    source = write(tmp_path / "in.jsonl", [{"id": kind, "text": kind} for kind in kinds])
    out = tmp_path / "out"
    with pytest.raises(CommandFailed, match="2 of 4 lines"):
        bulk.run(source, out)
    assert sorted(bulk.backend.spoken) == sorted(["flaky one"] * 2 + ["broken one"] * 2 + ["silence", "fine"])
    failed = {failure["id"]: failure for failure in records(out / "failures.jsonl")}
    assert failed["broken one"] | {"tries": 2, "code": "engine_error"} == failed["broken one"]
    assert failed["silence"] | {"tries": 1, "code": "nothing_to_say", "field": "text"} == failed["silence"]
    assert [record["id"] for record in records(out / "manifest.jsonl")] == ["flaky one", "fine"]

    with pytest.raises(CommandFailed):  # the next run tries them again, and only them
        bulk.run(source, out)
    assert set(bulk.backend.spoken) == {"broken one", "silence"}


def test_a_run_gives_up_where_nothing_works(bulk: Bulk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kokoro_server.longform.bulk.run.GIVE_UP_AFTER", 10)
    source = write(tmp_path / "in.jsonl", [{"id": n, "text": f"broken {n}"} for n in range(500)])
    with pytest.raises(KokoroError, match="another run goes on from there"):
        bulk.run(source, tmp_path / "out")
    assert len(bulk.backend.spoken) < 100


def test_odd_ids_have_a_file_each_that_every_system_takes(bulk: Bulk, tmp_path: Path) -> None:
    ids = [
        "plain", "a/b", "a\\b", "../../etc/passwd", ".", "..", "a.b", "A.B", "Foo", "foo", "FOO", "naïve",
        "nai\u0308ve", "日本語", "x" * 900, "x" * 901, "twice", "twice", "con", "tab\there", "nul\0", "-", " ",
        "manifest", "é" * 500,
    ]  # fmt: skip
    lines = [{"id": id, "text": f"Text {n}."} for n, id in enumerate(ids)] + [{"id": 7, "text": "A number."}]
    out = tmp_path / "out"
    assert bulk.run(write(tmp_path / "in.jsonl", lines), out) == 0
    manifest = records(out / "manifest.jsonl")
    assert [record["id"] for record in manifest] == [*ids, "7"]
    files = [record["file"] for record in manifest]
    assert len({file.casefold() for file in files}) == len(lines)
    assert set(tree(out)) == {*files, "manifest.jsonl"}
    assert all(len(file.encode()) <= 160 and file.count(".") == 1 and "/" not in file for file in files)
    assert files[0] == "plain.wav"
    assert manifest[ids.index("日本語")]["file"] == "日本語.wav"
    for line, file in zip(lines, files, strict=True):
        assert soundfile.info(str(out / file)).frames == 400 * len(str(line["text"]))


@pytest.mark.parametrize("shards", [(), ("--shards", "10")])
def test_what_changed_is_made_anew_and_nothing_else(bulk: Bulk, tmp_path: Path, shards: tuple[str, ...]) -> None:
    lines, out = texts(35), tmp_path / "out"
    source = write(tmp_path / "in.jsonl", lines)
    assert bulk.run(source, out, *shards) == 0
    before = tree(out)
    assert bulk.run(source, out, *shards) == 0
    assert bulk.backend.spoken == []
    assert tree(out) == before

    lines[3]["text"] = "Something else."
    lines[4]["seed"] = 77
    del lines[34]
    lines.append({"id": "new", "text": "Brand new."})
    write(source, lines)
    assert bulk.run(source, out, *shards) == 0
    assert sorted(bulk.backend.spoken) == sorted([lines[3]["text"], lines[4]["text"], "Brand new."])
    undisturbed = tmp_path / "undisturbed"
    assert bulk.run(source, undisturbed, *shards) == 0
    assert tree(out) == tree(undisturbed)

    write(source, texts(35))  # and back again
    assert bulk.run(source, out, *shards) == 0
    assert tree(out) == before


def test_a_file_that_was_removed_or_cut_off_is_made_again(bulk: Bulk, tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", texts(5)), tmp_path / "out"
    bulk.run(source, out)
    before = tree(out)
    (out / "clip-0001.wav").unlink()
    (out / "clip-0003.wav").write_bytes(b"RIFF")
    bulk.run(source, out)
    assert len(bulk.backend.spoken) == 2
    assert tree(out) == before


def test_shards_are_tars_of_audio_and_facts_in_the_order_of_the_input(bulk: Bulk, tmp_path: Path) -> None:
    lines, out = texts(25), tmp_path / "out"
    lines[12]["text"] = "broken"
    with pytest.raises(CommandFailed):
        bulk.run(write(tmp_path / "in.jsonl", lines), out, "--shards", "10")
    assert set(tree(out)) == {f"shard-{n:06}.tar" for n in range(3)} | {"manifest.jsonl", "failures.jsonl"}
    found = []
    for path in sorted(out.glob("*.tar")):
        with tarfile.open(path) as shard:
            names = shard.getnames()
            assert all(member.mtime == 0 for member in shard)
            for audio, facts in zip(names[::2], names[1::2], strict=True):
                assert audio.removesuffix(".flac") == facts.removesuffix(".json")
                record = json.load(shard.extractfile(facts))
                duration = soundfile.info(io.BytesIO(shard.extractfile(audio).read())).duration
                assert abs(duration - record["duration"]) < 0.001
                found.append(record)
    assert found == records(out / "manifest.jsonl")
    assert [record["id"] for record in found] == [line["id"] for n, line in enumerate(lines) if n != 12]
    assert not (out / ".bulk" / "parts").exists()


@pytest.mark.parametrize("method", ["_load", "read"])
def test_the_journal_of_any_number_of_lines_is_not_read_on_the_event_loop(
    bulk: Bulk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def watched(journal: Journal, given: Any) -> Any:
        threads.add(threading.current_thread())
        return called(journal, given)

    threads, called = set[threading.Thread](), getattr(Journal, method)
    monkeypatch.setattr(Journal, method, watched)
    source, out = write(tmp_path / "in.jsonl", texts(20)), tmp_path / "out"
    for _ in range(2):  # of which the second finds all of it made
        bulk.run(source, out, "--shards", "10")
    assert threads
    assert threading.main_thread() not in threads


def test_the_journal_is_not_written_on_the_event_loop(
    bulk: Bulk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watched(*given: Any) -> int:
        threads.add(threading.current_thread())
        return append(*given)

    threads, append = set[threading.Thread](), Journal.append
    monkeypatch.setattr(Journal, "append", watched)
    source = write(tmp_path / "in.jsonl", [*texts(3), {"id": "mute", "text": "silence" * 100_000}])
    with pytest.raises(CommandFailed):
        bulk.run(source, tmp_path / "out")
    assert threads
    assert threading.main_thread() not in threads


def test_csv_has_names_in_its_first_line_and_texts_of_several_lines(bulk: Bulk, tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out"
    source.write_text(
        'id,text,speed,normalize,voice\n01,"Hello,\nyou",1.5,,\n02,"3 cm",,false,af_bella\n03,x,fast,,\n4,x,1,,,,,\n',
        encoding="utf-8-sig",
    )
    with pytest.raises(CommandFailed):
        bulk.run(source, out, "-v", "am_adam")
    one, two = records(out / "manifest.jsonl")
    assert one | {"id": "01", "text": "Hello,\nyou", "speed": 1.5, "voice": "am_adam"} == one
    assert two | {"id": "02", "normalize": False, "voice": "af_bella"} == two
    failures = [(failure["line"], failure["field"]) for failure in records(out / "failures.jsonl")]
    assert failures == [(5, "speed"), (6, None)]


def test_parquet_rows_are_lines_and_its_package_is_named_where_it_is_missing(bulk: Bulk, tmp_path: Path) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out"
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        source.touch()
        with pytest.raises(SetupError, match=r"kokoro-server\[parquet\]"):
            bulk.run(source, out)
        return
    parquet.write_table(pyarrow.table({"id": ["a", "b"], "text": ["One.", "Two."], "speed": [None, 1.5]}), source)
    assert bulk.run(source, out) == 0
    assert [record.get("speed") for record in records(out / "manifest.jsonl")] == [None, 1.5]


def test_standard_input(bulk: Bulk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in texts(3))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert bulk.run("-", tmp_path / "out") == 0
    assert len(records(tmp_path / "out" / "manifest.jsonl")) == 3


def test_a_second_run_on_the_same_folder_is_refused(bulk: Bulk, tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", texts(1)), tmp_path / "out"
    with folder(out), pytest.raises(SetupError, match="another bulk run"):
        bulk.run(source, out)
    assert bulk.run(source, out) == 0


def test_what_cannot_be_read_or_written_is_told_in_one_line(bulk: Bulk, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"missing.jsonl: cannot be read: No such file"):
        bulk.run(tmp_path / "missing.jsonl", tmp_path / "out")
    with pytest.raises(SetupError, match=r"\.jsonl \.ndjson \.csv \.parquet"):
        bulk.run(tmp_path / "in.txt", tmp_path / "out")
    source = write(tmp_path / "in.jsonl", texts(3))
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match=r"file.*cannot be written: Not a directory"):
        bulk.run(source, tmp_path / "file" / "out")


def test_a_full_disk_is_told_and_the_next_run_goes_on(
    bulk: Bulk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write(tmp_path / "in.jsonl", texts(20)), tmp_path / "out"
    replace, count = Path.replace, iter(range(100))

    def full(path: Path, target: Path) -> Path:
        if next(count) == 5:
            raise OSError(28, "No space left on device", str(target))
        return replace(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(SetupError, match=r"clip-\d+.wav: cannot be written: No space left.*kept"):
            bulk.run(source, out)
    assert bulk.run(source, out) == 0
    assert len(bulk.backend.spoken) < 20
    bulk.run(source, tmp_path / "undisturbed")
    assert tree(out) == tree(tmp_path / "undisturbed")


def test_progress_is_logged(bulk: Bulk, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kokoro_server")
    bulk.run(write(tmp_path / "in.jsonl", texts(30)), tmp_path / "out")
    shown = [record.getMessage() for record in caplog.records if record.getMessage().startswith("bulk lines=")]
    assert len(shown) >= 5
    assert shown[-1].startswith("bulk lines=30 of=30 failed=0 audio=")
    assert any(" left=0:" in line and "speed=" in line for line in shown)


@pytest.mark.skipif(find_spec("faster_whisper") is not None, reason="the package is installed")
def test_verify_without_its_package_says_what_to_install(bulk: Bulk, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", texts(1))
    with pytest.raises(SetupError, match=r"kokoro-server\[asr\]"):
        bulk.run(source, tmp_path / "out", "--verify")


def test_a_quote_of_csv_that_is_never_closed_is_told(bulk: Bulk, tmp_path: Path) -> None:
    """All lines after it would be the text of one."""
    (tmp_path / "in.csv").write_text('id,text\na,"Hello.\nb,Bye.\n', encoding="utf-8")
    with pytest.raises(SetupError, match="line 4 cannot be read: unexpected end of data"):
        bulk.run(tmp_path / "in.csv", tmp_path / "out")


def test_csv_in_another_encoding_is_told(bulk: Bulk, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"id,text\na,caf\xe9\n")
    with pytest.raises(SetupError, match="is no UTF-8 text: it has the byte 0xe9"):
        bulk.run(tmp_path / "in.csv", tmp_path / "out")


@pytest.mark.parametrize("damage", [lambda _: b"no tar at all", lambda whole: whole[: len(whole) // 2]])
def test_a_damaged_shard_is_made_anew(bulk: Bulk, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    source, out = write(tmp_path / "in.jsonl", texts(4)), tmp_path / "out"
    bulk.run(source, out, "--shards", 3)
    whole = tree(out)
    shard = out / "shard-000000.tar"
    shard.write_bytes(damage(shard.read_bytes()))
    assert bulk.run(source, out, "--shards", 3) == 0
    assert tree(out) == whole
    assert len(bulk.backend.spoken) == 3
